"""Listening: a socket, uvicorn around the application, and a prompt end."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable

import uvicorn
import uvloop

from headgate import serving
from headgate.simulator.server.app import EngineApp
from headgate.simulator.server.live import LiveEngine
from headgate.simulator.server.metrics import MetricsPage, Timings
from headgate.simulator.server.settings import ServerSettings

KEEP_ALIVE_S = 75
BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def run(settings: ServerSettings, sock: socket.socket, on_listening: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; a second signal cuts what is still in flight."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(settings, sock, on_listening))


@contextlib.asynccontextmanager
async def running(settings: ServerSettings, sock: socket.socket) -> AsyncIterator[LiveEngine]:
    """A simulated engine that answers on `sock` while the block lasts; the end of the block drains it."""
    timings = Timings(settings.engine.max_model_len)
    live = LiveEngine(settings.engine, timings)
    page = MetricsPage(settings.models[0], settings.engine, timings, live.statistics, time.time())
    server = serving.EmbeddedServer(_uvicorn_config(EngineApp(settings, live, page), settings))
    async with contextlib.aclosing(server), asyncio.TaskGroup() as group:
        stepping = group.create_task(live.run())
        answering = group.create_task(server.serve(sockets=[sock]))
        await server.accepting.wait()
        try:
            yield live
        finally:
            server.stop()
            cut = asyncio.get_running_loop().call_later(settings.drain_s, live.cancel_all)
            await answering
            cut.cancel()
            stepping.cancel()


async def _until_signalled(
    settings: ServerSettings, sock: socket.socket, on_listening: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings, sock) as live:
        on_listening()
        await stop.wait()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, live.cancel_all)


def _uvicorn_config(app: EngineApp, settings: ServerSettings) -> uvicorn.Config:
    return serving.configuration(
        app,
        timeout_keep_alive=KEEP_ALIVE_S,
        # Streams are cut after `drain_s`; this is for a client that does not even read that.
        timeout_graceful_shutdown=settings.drain_s + 1,
    )
