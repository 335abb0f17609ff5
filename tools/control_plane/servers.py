"""Runs the programs on loopback: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

A state directory has all the files they write: the data of etcd, certificates, tokens, keys, logs, and the
kubeconfig of an administrator. Each start begins with an empty cluster. The process that starts the programs
stays in the foreground; they die with it, and it ends with the process that started it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from programs import ControlPlaneError, Programs

HOST = "127.0.0.1"
READY_S = 120.0
POLL_S = 0.05
LAST_LINES = 15
PR_SET_PDEATHSIG = 1  # linux/prctl.h
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
"""What service accounts do: their requests, without bodies."""
BARE_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
)
"""The controllers whose work the embedded API server does too."""
KUBELET_CLIENT = "/O=system:masters/CN=kube-apiserver-kubelet-client"
"""Subject of the API server's certificate for kubelets."""
PROXY_CLIENT = "front-proxy-client"
"""Name in its certificate for servers of aggregated APIs."""
PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections."""


def up(programs: Programs, state: Path, *, has_audit: bool = False, is_bare: bool = False) -> int:
    """Starts a control plane, prints the path of its kubeconfig, and stays until a signal or `down`.

    `has_audit`: the API server writes what service accounts do to audit.log.
    `is_bare`: no scheduler, and of the controllers only BARE_CONTROLLERS.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _held(state), contextlib.ExitStack() as running:
        signal.signal(signal.SIGTERM, interrupt)
        die_with_parent(signal.SIGTERM)
        plane = ControlPlane(programs, state.resolve(), has_audit=has_audit, is_bare=is_bare)
        running.callback(plane.kill)
        try:
            plane.start()
            sys.stdout.write(f"{plane.kubeconfig}\n")
            sys.stdout.flush()
            plane.wait()
        except KeyboardInterrupt:
            return 0
    return 0


def beside(programs: Programs, command: list[str]) -> int:
    """Runs a command beside a new control plane, whose kubeconfig $KUBECONFIG names; returns its status."""
    with tempfile.TemporaryDirectory(prefix="control-plane-") as state, contextlib.ExitStack() as running:
        plane = ControlPlane(programs, Path(state).resolve(), has_audit=False, is_bare=False)
        running.callback(plane.kill)
        plane.start()
        environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        return subprocess.run(command, env=environ).returncode  # noqa: S603 - as told


def down(state: Path) -> None:
    """Ends the control plane of a state directory, if one runs, and waits for its end."""
    note = state / "pid"
    if not note.exists():
        raise ControlPlaneError(f"{state} is not the state directory of a control plane")
    with note.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.kill(int(file.read()), signal.SIGTERM)
            fcntl.flock(file, fcntl.LOCK_SH)


@contextlib.contextmanager
def _held(state: Path) -> Iterator[None]:
    """Locks a state directory, with the id of this process for `down`."""
    with (state / "pid").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ControlPlaneError(f"A control plane runs in {state} already") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def die_with_parent(number: signal.Signals) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


class ControlPlane:
    """The running programs of one state directory."""

    def __init__(self, programs: Programs, state: Path, *, has_audit: bool, is_bare: bool) -> None:
        self.state = state
        self._has_audit = has_audit
        self._is_bare = is_bare
        self.kubeconfig = state / "kubeconfig"
        self._programs = programs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._token = secrets.token_hex(16)
        self._etcd, self._etcd_peers, self._apiserver, self._controllers, self._scheduler = free_ports(5)

    def start(self) -> None:
        """Returns once all programs are ready."""
        self._write_files()
        self._run("etcd", *self._etcd_flags())
        self._run_apiserver()
        self._until(lambda: self._is_ready(self._apiserver, "/readyz"))
        self._write_kubeconfig()
        self._run("kube-controller-manager", *self._controller_flags())
        if not self._is_bare:
            self._run("kube-scheduler", *self._scheduler_flags())
        self._until(lambda: self._is_ready(self._controllers, "/healthz"))
        self._until(lambda: self._is_bare or self._is_ready(self._scheduler, "/readyz"))
        self._until(self._has_default_account)

    def wait(self) -> None:
        """Returns never: raises if a program ends. An API server that is killed starts again, as a kubelet
        would start it."""
        while True:
            if self._running["kube-apiserver"].poll() == -signal.SIGKILL:
                self._run_apiserver()
            self._check()
            time.sleep(0.2)

    def kill(self) -> None:
        """Without a goodbye: an API server that has lost its etcd takes minutes to end by itself."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        shutil.rmtree(self.state / "etcd", ignore_errors=True)

    def _run_apiserver(self) -> None:
        self._run("kube-apiserver", *self._apiserver_flags(), *self._audit_flags())

    def _write_files(self) -> None:
        for name in ("etcd", "certificates", "clients", "proxy"):
            # Of an earlier control plane, which may have been killed.
            shutil.rmtree(self.state / name, ignore_errors=True)
        write_private(self.state / "accounts.key", _new_private_key())
        write_private(self.state / "tokens.csv", f'{self._token},admin,admin,"system:masters"\n')
        _make_client_certificate(self.state / "clients", "kubelet-client", KUBELET_CLIENT)
        _make_client_certificate(self.state / "proxy", "proxy-client", f"/CN={PROXY_CLIENT}")

    def _write_kubeconfig(self) -> None:
        certificate = base64.b64encode((self.state / "certificates" / "apiserver.crt").read_bytes()).decode()
        server = f"https://{HOST}:{self._apiserver}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": server, "certificate-authority-data": certificate}}
            ],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        write_private(self.kubeconfig, json.dumps(config, indent=2) + "\n")

    def _etcd_flags(self) -> list[str]:
        clients, peers = f"http://{HOST}:{self._etcd}", f"http://{HOST}:{self._etcd_peers}"
        return [
            f"--data-dir={self.state / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _apiserver_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://{HOST}:{self._etcd}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={self._apiserver}",
            f"--cert-dir={self.state / 'certificates'}",
            f"--service-account-key-file={self.state / 'accounts.key'}",
            f"--service-account-signing-key-file={self.state / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.state / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",  # its own address is a loopback one, which slices may not have
            "--allow-privileged",
            f"--client-ca-file={self.state / 'clients' / 'ca.crt'}",
            f"--kubelet-client-certificate={self.state / 'clients' / 'kubelet-client.crt'}",
            f"--kubelet-client-key={self.state / 'clients' / 'kubelet-client.key'}",
            *self._aggregator_flags(),
        ]

    def _aggregator_flags(self) -> list[str]:
        """For APIServices: how the API server shows itself to them, and names the user. They are reached at
        the addresses of their EndpointSlices, since there is no kube-proxy."""
        directory = self.state / "proxy"
        return [
            "--enable-aggregator-routing",
            f"--proxy-client-cert-file={directory / 'proxy-client.crt'}",
            f"--proxy-client-key-file={directory / 'proxy-client.key'}",
            f"--requestheader-client-ca-file={directory / 'ca.crt'}",
            f"--requestheader-allowed-names={PROXY_CLIENT}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]

    def _audit_flags(self) -> list[str]:
        if not self._has_audit:
            return []
        policy, log = self.state / "audit-policy.json", self.state / "audit.log"
        policy.write_text(json.dumps(AUDIT_POLICY))
        log.unlink(missing_ok=True)
        return [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.state / 'accounts.key'}",
            f"--root-ca-file={self.state / 'certificates' / 'apiserver.crt'}",
            "--leader-elect=false",
            f"--bind-address={HOST}",
            f"--secure-port={self._controllers}",
            *([f"--controllers={','.join(BARE_CONTROLLERS)}"] if self._is_bare else []),
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={HOST}",
            f"--secure-port={self._scheduler}",
        ]

    def _run(self, name: str, *flags: str) -> None:
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - the programs that were found
                [self._programs.path(name), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.state,
                start_new_session=True,  # Ctrl-C is for this process
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),
            )

    def _log(self, name: str) -> Path:
        return self.state / f"{name}.log"

    def _check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                lines = self._log(name).read_text(errors="replace").splitlines()[-LAST_LINES:]
                text = "\n".join(lines)
                raise ControlPlaneError(
                    f"{name} ended with status {process.returncode} ({self._log(name)}):\n{text}"
                )

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not holds():
            self._check()
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"The control plane is not ready after {READY_S:.0f} s; its logs: {self.state}"
                )
            time.sleep(POLL_S)

    def _has_default_account(self) -> bool:
        """Without it, no Pod can be created in the namespace `default`: the controllers have just started."""
        return self._is_ready(self._apiserver, "/api/v1/namespaces/default/serviceaccounts/default")

    def _is_ready(self, port: int, path: str) -> bool:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # each program makes its certificate when it starts
        connection = http.client.HTTPSConnection(HOST, port, timeout=5, context=context)
        with contextlib.closing(connection):
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False


def free_ports(number: int) -> list[int]:
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < number:
            port = random.SystemRandom().choice(PORTS)
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind((HOST, port))
                ports.append(port)
    return ports


def _new_private_key() -> str:
    """A key for signing tokens of service accounts, on the curve P-256, in the form of RFC 5915.

    A key is any number below the order of the curve, which is above 2^255; the public key is derived from it.
    """
    number = secrets.randbelow(1 << 255).to_bytes(32)
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    encoded = base64.b64encode(b"\x30\x31\x02\x01\x01\x04\x20" + number + curve).decode()
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def _make_client_certificate(directory: Path, name: str, subject: str) -> None:
    """A certificate that kube-apiserver shows to other servers, and the authority that has signed it."""
    directory.mkdir(mode=0o700)
    _openssl(directory, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", f"/CN={directory.name}")
    _openssl(directory, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
    usage = directory / "usage"
    usage.write_text("extendedKeyUsage = clientAuth\n")
    signed = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", usage.name)
    run_openssl(directory, "x509", "-req", *signed, "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")


def _openssl(directory: Path, *words: str) -> None:
    """Makes a key with a certificate or a request for one."""
    run_openssl(directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *words)


def run_openssl(directory: Path, *words: str) -> None:
    try:
        done = subprocess.run(["openssl", *words], cwd=directory, capture_output=True, text=True)  # noqa: S603, S607
    except FileNotFoundError:
        raise ControlPlaneError("openssl is not installed, which makes the client certificate") from None
    if done.returncode:
        raise ControlPlaneError(f"openssl {words[0]} failed: {done.stderr}")


def write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
