"""Routers for LLM engines, written in Rust, from the package index."""

from __future__ import annotations

import os
from typing import ClassVar

from ports import held_port
from proxies.packaged import PackagedProxy
from proxies.processes import Addresses

_ROUTER_NOTE = (
    "defaults (a thread per core, log to a file), "
    + "except the policy: cache_aware where the row says so, else round_robin"
)


class Router(PackagedProxy):
    """The common part of all three, which derive from one program and accept its options."""

    note: ClassVar[str] = _ROUTER_NOTE

    def command(self) -> tuple[str | os.PathLike[str], ...]:
        """The command, before its options."""
        return (self._python, "-m", f"{self.module}.launch_router")

    def started_options(self) -> tuple[str, ...]:
        """The default interval of worker checks, 30 s, would only delay the start."""
        return ("--worker-startup-check-interval", "1")

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        self.fresh_scratch()
        port = held_port()
        pid = self.spawn(
            "router",
            *(*self.command(), "--host", "127.0.0.1", "--port", str(port)),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(held_port())),
            *("--policy", "cache_aware" if cache_aware else "round_robin"),
            *self.started_options(),
            *("--worker-urls", *(f"http://{host}:{number}" for host, number in upstreams)),
        )
        self.answers(port)
        return port, pid


class VllmRouter(Router):
    name: ClassVar[str] = "vllm-router"
    pinned: ClassVar[str] = "0.1.17"
    module: ClassVar[str] = "vllm_router"


class SglangRouter(Router):
    name: ClassVar[str] = "sglang-router"
    pinned: ClassVar[str] = "0.3.2"
    module: ClassVar[str] = "sglang_router"


class Smg(Router):
    """The successor of sglang-router."""

    name: ClassVar[str] = "smg"
    pinned: ClassVar[str] = "1.13.0"
    module: ClassVar[str] = "smg"

    def command(self) -> tuple[str | os.PathLike[str], ...]:
        return (self._environment / "bin" / "smg", "launch")
