"""The pickers under comparison: how each is installed and started, on a port without TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import httpx2

from pickers import cluster
from ports import held_port
from proxies.packaged import PackagedProxy
from proxies.processes import (
    ROOT,
    Addresses,
    ProxyProcesses,
    UnavailableError,
    wait_until,
    wait_until_listening,
)

HEADGATE = Path(sys.executable).with_name("headgate")


class Picker(ProxyProcesses):
    """A picker process, and whatever it needs beside it."""

    name: ClassVar[str]
    note: ClassVar[str]

    def install(self) -> str:
        """Return its version. Raises UnavailableError."""
        raise NotImplementedError

    def pick(self, engines: Addresses) -> tuple[int, int]:
        """Start it for these engines; return its port and pid."""
        raise NotImplementedError

    def _api_server(self, engines: Addresses) -> Path:
        """Start an embedded API server with the objects of the picker; return its kubeconfig."""
        state = self.scratch / "state"
        kubeconfig = state / "kubeconfig"
        self.spawn("apiserver", HEADGATE, "apiserver", "--state", state, "--port", str(held_port()))
        wait_until(kubeconfig.exists, "the API server's kubeconfig", self.check_alive)
        cluster.declare(kubeconfig, list(engines))
        return kubeconfig


class Headgate(Picker):
    """Our own."""

    name: ClassVar[str] = "headgate"
    note: ClassVar[str] = (
        "headgate picker, all features at their defaults (prefix-aware prediction, learning)"
    )

    def install(self) -> str:
        return metadata.version("headgate")

    def pick(self, engines: Addresses) -> tuple[int, int]:
        self.fresh_scratch()
        kubeconfig = self._api_server(engines)
        port, page = held_port(), held_port()
        pid = self.spawn(
            "picker",
            *(HEADGATE, "picker", "--kubeconfig", kubeconfig, "--pool-name", cluster.POOL),
            *("--host", "127.0.0.1", "--grpc-port", str(port), "--grpc-health-port", str(held_port())),
            *("--metrics-port", str(page), "--secure-serving=false"),
        )
        wait_until(
            lambda: httpx2.get(f"http://127.0.0.1:{page}/readyz").status_code == 200,
            "the picker's /readyz",
            self.check_alive,
        )
        return port, pid


class Naive(PackagedProxy, Picker):
    """As one would write it first."""

    name: ClassVar[str] = "naive"
    pinned: ClassVar[str] = "1.85.0"
    package: ClassVar[str] = "xds-protos"
    module: ClassVar[str] = "envoy.service.ext_proc.v3.external_processor_pb2"
    note: ClassVar[str] = "grpc.aio and protobuf in Python, round robin, no objects, no metrics"

    def pick(self, engines: Addresses) -> tuple[int, int]:
        self.fresh_scratch()
        port = held_port()
        script = Path(__file__).with_name("naive_server.py")
        pid = self.spawn(
            "picker", self._python, "-P", script, str(port), *(f"{host}:{number}" for host, number in engines)
        )
        wait_until_listening("127.0.0.1", port)
        return port, pid


class Reference(Picker):
    """The picker of the Inference Extension."""

    name: ClassVar[str] = "epp"
    family: ClassVar[str] = "epp"
    program: ClassVar[str] = "epp"
    note: ClassVar[str] = (
        "cmd/epp of the Inference Extension, in Go, its default plugins (queue, KV cache, prefix)"
    )
    flags: ClassVar[tuple[str, ...]] = (
        "--metrics-endpoint-auth=false",
        "--tracing=false",  # there is nobody to send traces to
    )

    def install(self) -> str:
        """It is built by tools/control_plane, or named by the environment."""
        variable = f"HEADGATE_BENCH_{self.name.upper().replace('-', '_')}"
        if named := os.environ.get(variable):
            self._program = Path(named)
            return self._program.parent.name.rpartition("-")[2]
        tool = ROOT / "tools" / "control_plane"
        ran = subprocess.run(
            [sys.executable, "-P", tool, "path-suite", self.family],
            capture_output=True,
            text=True,
            check=False,
        )
        self._program = Path(ran.stdout.strip() or ".") / self.program
        if ran.returncode != 0 or not self._program.is_file():
            told = f"python3 tools/control_plane build-suites {self.family}"
            raise UnavailableError(f"build it by `{told}`, or name it: {variable}=PATH")
        return self._program.parent.name.rpartition("-")[2]

    def pick(self, engines: Addresses) -> tuple[int, int]:
        self.fresh_scratch()
        kubeconfig = self._api_server(engines)
        port = held_port()
        environ = shutil.which("env") or "/usr/bin/env"
        pid = self.spawn(
            "picker",
            *(environ, f"KUBECONFIG={kubeconfig}", self._program),
            *("--pool-name", cluster.POOL, "--pool-namespace", "default"),
            *("--grpc-port", str(port), "--grpc-health-port", str(held_port())),
            *("--metrics-port", str(held_port()), "--secure-serving=false"),
            *self.flags,
            *self._configured(),
        )
        wait_until_listening("127.0.0.1", port)
        return port, pid

    def _configured(self) -> Sequence[str | Path]:
        """Flags that name its configuration; its default plugins without any."""
        return ()


class LlmD(Reference):
    """The picker of llm-d."""

    name: ClassVar[str] = "llm-d"
    family: ClassVar[str] = "llm-d"
    program: ClassVar[str] = "llm-d-inference-scheduler"
    note: ClassVar[str] = (
        "llm-d-inference-scheduler, in Go, with its own configuration for estimated prefixes and load; its "
        "plugins for exact prefixes, which are not configured, are not compiled in"
    )

    def _configured(self) -> Sequence[str | Path]:
        file = self._program.parent / "configurations" / "epp-estimate-prefix-cache-config.yaml"
        return ("--config-file", file)
