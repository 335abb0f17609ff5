"""A real control plane, as its administrator sees it."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

TOOL = Path(__file__).parents[2] / "tools" / "control_plane"
WAIT_S = 120.0


def wait_until(holds: Callable[[], Any], limit_s: float = WAIT_S) -> Any:
    """Polls until something holds, and returns it."""
    began = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - began < limit_s, f"{holds} did not hold within {limit_s} s"
        time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Cluster:
    """A control plane, as its administrator sees it."""

    kubeconfig: Path
    programs: Path
    """The directory of kubectl and the others."""

    @property
    def state(self) -> Path:
        return self.kubeconfig.parent

    @property
    def server(self) -> str:
        """Its URL."""
        url: str = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        return url

    def kubectl(self, *words: str | Path, text: str | None = None, fails: bool = False) -> str:
        """What kubectl prints; asserts that it succeeds, or with `fails` that it does not."""
        flags = ["--kubeconfig", self.kubeconfig, "--cache-dir", self.state / "kubectl-cache"]
        done = subprocess.run(
            [self.programs / "kubectl", *flags, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def apply(self, *manifests: dict[str, Any], namespace: str = "default") -> None:
        text = "\n".join(json.dumps(manifest) + "\n---" for manifest in manifests)
        self.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", text=text)

    def define(self, *words: str | Path) -> None:
        """Applies definitions, and waits until they are served."""
        self.kubectl("apply", "--server-side", *words)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={WAIT_S:.0f}s")

    def define_loosely(self, *kinds: tuple[str, str, str]) -> None:
        """Kinds by group, version and name, which take any content and keep it."""
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        for group, version, kind in kinds:
            plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
            names = {"kind": kind, "plural": plural, "singular": kind.lower()}
            schema = {"openAPIV3Schema": anything}
            served = {"name": version, "served": True, "storage": True, "schema": schema}
            self.apply(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {
                        "name": f"{plural}.{group}",
                        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
                    },
                    "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
                }
            )
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={WAIT_S:.0f}s")

    def get(self, *words: str) -> Any:
        """An object, or a list of them."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def client(self) -> httpx2.Client:
        """Sends requests of the administrator."""
        return self._client(json.loads(self.kubeconfig.read_text())["users"][0]["user"]["token"])

    def request(self, path: str, token: str | None = None) -> httpx2.Response:
        """A GET with a token, or without one."""
        with self._client(token) as client:
            return client.get(path)

    def _client(self, token: str | None) -> httpx2.Client:
        cluster = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return httpx2.Client(
            base_url=cluster["server"],
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cadata=authority),
            trust_env=False,
            timeout=WAIT_S,
        )

    def kubeconfig_of(self, account: str, namespace: str, directory: Path) -> Path:
        """Writes a kubeconfig with a token of a service account."""
        config = json.loads(self.kubeconfig.read_text())
        token = self.kubectl("create", "token", account, "-n", namespace).strip()
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        config["contexts"][0]["context"]["namespace"] = namespace
        file = directory / f"{account}.kubeconfig"
        file.write_text(json.dumps(config))
        return file


@contextmanager
def namespaces(cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Makes namespaces, with the account that Pods run as; they are deleted at the end of the block."""
    made: list[str] = []

    def make() -> str:
        name = f"test-{uuid.uuid4().hex[:10]}"
        made.append(name)
        cluster.kubectl("create", "namespace", name)
        account = "serviceaccount/default"
        cluster.kubectl("wait", "--for=create", account, "-n", name, f"--timeout={WAIT_S:.0f}s")
        return name

    try:
        yield make
    finally:
        for name in made:
            cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@contextmanager
def control_plane(state: Path, programs: Path) -> Iterator[Cluster]:
    """A control plane without any definitions."""
    command = [sys.executable, TOOL, "up", "--audit", state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = process.stdout.readline()
        assert printed, process.stderr.read()
        try:
            yield Cluster(Path(printed.strip()), programs)
        finally:
            process.terminate()
            _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
