"""LWS, the controller of LeaderWorkerSets: its version, where it is found, how it is built, and how it runs.

It runs beside a control plane with its own webhooks, which the API server asks at a loopback address.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import build
import programs
import servers

MODULE = "sigs.k8s.io/lws"
VERSION = "0.8.0"
VARIABLE = "HEADGATE_LWS"

PROGRAM = "lws"
DEFINITIONS, WEBHOOKS = "definitions.yaml", "webhooks.yaml"
SOURCES = {
    DEFINITIONS: "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    WEBHOOKS: "config/webhook/manifests.yaml",
}
"""Files of the module that are kept beside the program."""
LABEL = "leaderworkerset.sigs.k8s.io/name"
READY_S = 60.0

HOW_TO_GET = f"`make lws` builds it with Go in a few minutes; or name its directory: {VARIABLE}=DIR"


def cache(environ: Mapping[str, str]) -> Path:
    return programs.cache(environ).parent / "lws"


def find(environ: Mapping[str, str]) -> Path | None:
    """The directory of the program: the one that the environment names, or that of the build."""
    if named := environ.get(VARIABLE):
        directory = Path(named).expanduser().resolve()
        if missing := [name for name in (PROGRAM, *SOURCES) if not (directory / name).exists()]:
            raise programs.ControlPlaneError(f"{VARIABLE}={named} has no {', '.join(missing)}")
        return directory
    built = cache(environ) / VERSION
    return built if os.access(built / PROGRAM, os.X_OK) else None


def build_it(environ: Mapping[str, str]) -> Path:
    """Builds the version unless it is there. Its directory appears only when it is complete."""
    if found := find(environ):
        return found
    home = cache(environ)
    home.mkdir(parents=True, exist_ok=True)
    go = build.Go(home)
    with tempfile.TemporaryDirectory(prefix=f"{VERSION}.new.", dir=home) as name:
        work, made = Path(name) / "module", Path(name) / "made"
        work.mkdir()
        made.mkdir()
        published = go.module(MODULE, VERSION)
        lines = ["module headgate.invalid/lws", f"go {published['Go']}", f"require {MODULE} v{VERSION}"]
        (work / "go.mod").write_text("\n".join(lines) + "\n")
        files = go.files(MODULE, VERSION)
        for kept, source in SOURCES.items():
            (made / kept).write_bytes((files / source).read_bytes())
        version = f"-s -w -X {MODULE}/pkg/version.GitVersion=v{VERSION}"
        go.build(work, made / PROGRAM, [f"{MODULE}/cmd"], version)
        ran = subprocess.run([made / PROGRAM, "--version"], capture_output=True, text=True)  # noqa: S603 - built now
        if f"v{VERSION}" not in ran.stdout:
            raise programs.ControlPlaneError(f"lws was built, but does not run:\n{ran.stdout}{ran.stderr}")
        with contextlib.suppress(OSError):  # another build was faster
            made.rename(home / VERSION)
    return home / VERSION


def run(found: programs.Programs, directory: Path, state: Path) -> int:
    """Runs LWS beside the control plane of a state directory, and prints a line once it is ready."""
    if not (state / "kubeconfig").exists():
        raise programs.ControlPlaneError(f"{state} is not the state directory of a control plane")
    signal.signal(signal.SIGTERM, servers.interrupt)
    servers.die_with_parent(signal.SIGTERM)
    controller = Controller(found, directory, state.resolve())
    try:
        with controller.running() as process:
            sys.stdout.write(f"LWS {VERSION} is ready\n")
            sys.stdout.flush()
            status = process.wait()
            raise programs.ControlPlaneError(f"lws ended with status {status} ({controller.log})")
    except KeyboardInterrupt:
        return 0


class Controller:
    """LWS beside one control plane. Its files are in the subdirectory `lws` of the state directory."""

    def __init__(self, found: programs.Programs, directory: Path, state: Path) -> None:
        self._programs = found
        self._directory = directory
        self._kubeconfig = state / "kubeconfig"
        self._home = state / "lws"
        self.log = self._home / "lws.log"
        self._webhooks, self._health = servers.free_ports(2)

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, ready: its kind is served, and its webhooks answer."""
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(mode=0o700)
        self._make_certificate()
        definitions = self._directory / DEFINITIONS
        self._kubectl("apply", "--server-side", "--force-conflicts", "-f", str(definitions))
        self._kubectl("wait", "--for=condition=Established", "crd/leaderworkersets.leaderworkerset.x-k8s.io")
        config = self._home / "config.json"
        config.write_text(json.dumps(self._config()))
        with self.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - the program that was found
                [self._directory / PROGRAM, f"--config={config}", f"--kubeconfig={self._kubeconfig}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process
                preexec_fn=lambda: servers.die_with_parent(signal.SIGKILL),
            )
        try:
            self._await_webhooks(process)
            self._kubectl("apply", "-f", "-", text=json.dumps(self._configurations()))
            yield process
        finally:
            process.kill()
            process.wait()

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"{servers.HOST}:{self._health}"},
            "webhook": {"host": servers.HOST, "port": self._webhooks, "certDir": str(self._home)},
        }

    def _make_certificate(self) -> None:
        """The certificate of the webhooks, which is its own authority."""
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        words += ["-subj", "/CN=lws", "-addext", f"subjectAltName=IP:{servers.HOST}"]
        servers.run_openssl(self._home, *words, "-keyout", "tls.key", "-out", "tls.crt")

    def _configurations(self) -> dict[str, Any]:
        """The module's configurations of its webhooks, with their addresses; Pods of others are not sent."""
        text = self._kubectl(
            "create", "--dry-run=client", "-o", "json", "-f", str(self._directory / WEBHOOKS)
        )
        authority = base64.b64encode((self._home / "tls.crt").read_bytes()).decode()
        found = []
        decoder = json.JSONDecoder()
        while text := text.strip():
            configuration, end = decoder.raw_decode(text)
            text = text[end:]
            configuration["metadata"] = {"name": f"lws-{configuration['metadata']['name']}"}
            for webhook in configuration["webhooks"]:
                url = f"https://{servers.HOST}:{self._webhooks}{webhook['clientConfig']['service']['path']}"
                webhook["clientConfig"] = {"url": url, "caBundle": authority}
                if webhook["rules"][0]["resources"] == ["pods"]:
                    webhook["objectSelector"] = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
            found.append(configuration)
        return {"apiVersion": "v1", "kind": "List", "items": found}

    def _await_webhooks(self, process: subprocess.Popen[bytes]) -> None:
        """They listen once the controllers are set up."""
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((servers.HOST, self._webhooks), timeout=5).close()
                return
            if process.poll() is not None or time.monotonic() > deadline:
                last = "\n".join(self.log.read_text(errors="replace").splitlines()[-servers.LAST_LINES :])
                raise programs.ControlPlaneError(f"LWS does not become ready ({self.log}):\n{last}")
            time.sleep(servers.POLL_S)

    def _kubectl(self, *words: str, text: str | None = None) -> str:
        flags = [f"--kubeconfig={self._kubeconfig}", f"--cache-dir={self._home / 'kubectl-cache'}"]
        done = subprocess.run(  # noqa: S603 - the program that was found
            [self._programs.path("kubectl"), *flags, *words], input=text, capture_output=True, text=True
        )
        if done.returncode:
            raise programs.ControlPlaneError(f"kubectl {words[0]} failed: {done.stderr}")
        return done.stdout
