"""Our own gateway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import httpx2

import load
import objects
from ports import held_port
from proxies.processes import (
    ROOT,
    Addresses,
    ProxyProcesses,
    UnavailableError,
    route_name,
    wait_until,
)


class Headgate(ProxyProcesses):
    """One gateway process with default settings, which reads its objects from an embedded API server."""

    name: ClassVar[str] = "headgate"
    note: ClassVar[str] = "one process, all features at their defaults, access log to a file"
    has_routes: ClassVar[bool] = True
    has_tls: ClassVar[bool] = True
    ready_within_s: ClassVar[float] = 120.0  # with thousands of routes, on a busy machine
    _executable = Path(sys.executable).with_name("headgate")

    def __init__(
        self,
        cpu: int | None = None,
        flags: tuple[str, ...] = (),
        apart: tuple[str, Sequence[str]] | None = None,
    ) -> None:
        """`flags`: additional flags of the gateway. `apart`: a header and its values, each of which gets an
        equal part of the engines as its own pool.
        """
        super().__init__(cpu)
        self._flags = flags
        self._apart = apart

    def install(self) -> str:
        for command in ("apiserver", "gateway"):
            shown = subprocess.run(
                [self._executable, command, "--help"], capture_output=True, text=True, check=False
            )
            if shown.returncode != 0:
                reason = (shown.stderr.strip() or "no output").splitlines()[-1]
                raise UnavailableError(f"`headgate {command} --help`: {reason}".replace(str(ROOT), "."))
        return metadata.version("headgate")

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        self.fresh_scratch()
        state = self.scratch / "state"
        kubeconfig = state / "kubeconfig"
        port, admin = held_port(), held_port()
        self.spawn("apiserver", self._executable, "apiserver", "--state", state, "--port", str(held_port()))
        wait_until(kubeconfig.exists, "the API server's kubeconfig", self.check_alive)
        if self._apart is None:
            objects.declare(kubeconfig, upstreams)
        else:
            header, pools = self._apart
            each = len(upstreams) // len(pools)
            engines = {pool: upstreams[at * each : (at + 1) * each] for at, pool in enumerate(pools)}
            objects.declare(kubeconfig, upstreams, engines, header)
        objects.declare_routes(kubeconfig, [route_name(route) for route in range(routes)])
        secured: tuple[str, ...] = ()
        if self.is_secure:
            cert, key = self.certificate()
            secured = ("--tls-cert", str(cert), "--tls-key", str(key))
        pid = self.spawn(
            "gateway",
            *(self._executable, "gateway", "--kubeconfig", kubeconfig, "--port", str(port)),
            # The idle streams would reach the default limits.
            *("--clients-max-connections", "20000", "--endpoints-max-connections", "20000"),
            *("--metrics-port", str(held_port()), "--admin-port", str(admin)),
            *secured,
            *self._flags,
        )
        wait_until(
            lambda: httpx2.get(f"http://127.0.0.1:{admin}/readyz").status_code == 200,
            "the gateway's /readyz",
            self.check_alive,
            self.ready_within_s,
        )
        self.answers(port)
        return port, pid

    def question(self, route: int) -> tuple[str, bytes]:
        """Routed by its model."""
        return load.CHAT_PATH, load.chat_body("You keep a gate.", "Open?", model=route_name(route))
