"""Runs the sidecar until it is stopped and the engine is drained."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from headgate import engines, serving
from headgate.runtime import app, metrics
from headgate.runtime.adapters import Adapters
from headgate.runtime.app import Call, Response
from headgate.runtime.desired import DesiredFile
from headgate.runtime.drain import Drain
from headgate.runtime.engine import Address, Engine
from headgate.runtime.errors import ApiError
from headgate.runtime.fetching import Fetcher
from headgate.runtime.hooks import Hooks
from headgate.runtime.token import TokenFile
from headgate.runtime.writing import AdapterCalls, DownloadCalls, Reading

KEEP_ALIVE_S: Final = 15
"""Time without data after which the other end of a connection is probed: a hook may wait for minutes."""
LIMITS: Final = serving.Limits(connections=128)

log = logging.getLogger(__name__)


class RuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a sidecar. Times are in seconds."""

    engine: engines.Engine
    engine_address: Address
    metrics_path: str = "/metrics"
    host: str
    port: int
    pod: str = ""
    model: str = ""
    token_file: Path
    state_dir: Path
    adapters_dir: Path
    drain_quiet_s: float = 1.0
    drain_max_s: float = 280.0


async def run_runtime(config: RuntimeConfig, stop: asyncio.Event, announce: Callable[[str], None]) -> None:
    """Serve until `stop` is set and the engine is idle or gone. `announce` gets the address.

    Raises OSError if the address cannot be listened on.
    """
    use = serving.Use("the runtime", "--host", "--port")
    listener = serving.listening_socket(config.host, config.port, use=use)
    async with contextlib.AsyncExitStack() as parts:
        parts.callback(listener.close)
        _keep_alive(listener)
        engine = Engine(config.engine, config.engine_address, config.metrics_path)
        parts.callback(engine.close)
        sidecar = Sidecar(config, engine)
        parts.push_async_callback(sidecar.aclose)
        tasks = await parts.enter_async_context(asyncio.TaskGroup())
        leave = asyncio.Event()
        working = tasks.create_task(sidecar.adapters.run())
        tasks.create_task(serving.serve_page(sidecar.application(), listener, leave, LIMITS))
        announce(f"{config.host}:{listener.getsockname()[1]}")
        await stop.wait()
        await sidecar.ends()
        working.cancel()
        leave.set()


def _keep_alive(listener: socket.socket) -> None:
    """Connections inherit these options where the system has them."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if option := getattr(socket, name, None):
            listener.setsockopt(socket.IPPROTO_TCP, option, KEEP_ALIVE_S)


class Sidecar:
    """The handlers, and what they share."""

    def __init__(self, config: RuntimeConfig, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._page = metrics.Page(engine)
        self._drain = Drain(engine, quiet_s=config.drain_quiet_s, max_s=config.drain_max_s)
        self._hooks = Hooks()
        downloads = config.state_dir / "downloads"
        fetch = Fetcher(downloads).fetch
        self.adapters = Adapters(engine, fetch, DesiredFile(config.state_dir), config.adapters_dir)
        reading = Reading(TokenFile(config.token_file), config.adapters_dir)
        self._adapter_calls = AdapterCalls(reading, self.adapters)
        self._download_calls = DownloadCalls(reading, fetch, (config.state_dir, downloads))

    def application(self) -> app.Application:
        return app.Application(
            {
                ("GET", "/health"): self._health,
                ("GET", "/ready"): self._ready,
                ("GET", "/metrics"): self._metrics,
                ("GET", "/drain"): self._drained,
                ("GET", "/v1/downloads"): self._download_calls.show,
                ("POST", "/v1/download_model"): self._download_calls.download,
                ("GET", "/v1/adapters"): self._adapter_calls.show,
                ("PUT", "/v1/adapters"): self._adapter_calls.replace,
                ("POST", "/v1/load_lora_adapter"): self._adapter_calls.load,
                ("POST", "/v1/unload_lora_adapter"): self._adapter_calls.unload,
            }
        )

    async def ends(self) -> None:
        """Wait until nobody needs the sidecar: its container is stopped after the engine's, or with it."""
        outcome = await self._drain.wait()
        log.info("the engine is %s: the sidecar ends", outcome)

    async def aclose(self) -> None:
        await self._page.aclose()
        await self._download_calls.aclose()

    async def _health(self, _: Call) -> Response:
        return app.json({"status": "ok", "pod": self._config.pod, "model": self._config.model})

    async def _ready(self, _: Call) -> Response:
        if lack := await self.adapters.lack():
            raise ApiError(503, lack)
        return app.json({"status": "ok"})

    async def _metrics(self, _: Call) -> Response:
        return Response(await self._page.text(self._gauges()), metrics.CONTENT_TYPE)

    def _gauges(self) -> dict[str, int]:
        states = collections.Counter(each.state for each in self.adapters.states())
        adapters = {
            f'adapters{{state="{state}"}}': states[state] for state in ("Loading", "Loaded", "Failed")
        }
        return {"drain_waiting": self._drain.waiting, **adapters}

    async def _drained(self, call: Call) -> Response:
        """Respond once the engine has no requests. A client that leaves is not waited for."""
        async with self._hooks.place(call.client):
            await call.body()
            outcome = await call.while_connected(self._drain.wait())
        return app.json({"engine": outcome}, 503 if outcome == "late" else 200)
