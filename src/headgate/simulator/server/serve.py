"""Serve the application: a listening socket, uvicorn, and a prompt shutdown."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import uvicorn
import uvloop

from headgate import serving
from headgate.simulator.model import RemoteStore
from headgate.simulator.server import tls
from headgate.simulator.server.app import EngineApp
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.ranks import Ranks
from headgate.simulator.server.settings import ServerSettings

KEEP_ALIVE_S = 75
BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class Served(NamedTuple):
    """An engine to serve, and its sockets."""

    settings: ServerSettings
    sock: socket.socket
    bootstrap: socket.socket | None = None
    """The second address of an SGLang prefill engine."""
    store: RemoteStore | None = None
    """The store of cached blocks shared with other engines, if it has a remote tier; None creates one."""


def run(served: Sequence[Served], on_listening: Callable[[], None]) -> None:
    """Serve all engines until SIGTERM or SIGINT; a second signal cuts requests still in flight.

    Raises OSError if an address is in use, or a file is unusable.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(served, on_listening))


@contextlib.asynccontextmanager
async def running(
    settings: ServerSettings,
    sock: socket.socket,
    bootstrap: socket.socket | None = None,
    store: RemoteStore | None = None,
) -> AsyncIterator[Ranks]:
    """Serve a simulated engine on `sock` within this context; leaving it drains the engine.

    `bootstrap` is the second address, where SGLang's decode side finds its prefill side; `store` is shared by
    engines with a remote tier. Raises OSError if an address for KV events is in use, or TLS files cannot be
    used.
    """
    host, port = sock.getsockname()[:2]
    sockets = [sock] if bootstrap is None else [sock, bootstrap]
    async with contextlib.AsyncExitStack() as parts:
        for each in sockets:
            parts.callback(each.close)  # also if it never started to serve
        certificate = _certificate(settings, host)
        instance = Instance(settings, host, port, store)
        await parts.enter_async_context(instance.running())
        server = serving.EmbeddedServer(_uvicorn_config(EngineApp(instance), settings, certificate))
        await parts.enter_async_context(contextlib.aclosing(server))
        group = await parts.enter_async_context(asyncio.TaskGroup())
        answering = group.create_task(server.serve(sockets=sockets))
        following = group.create_task(certificate.follow()) if certificate is not None else None
        await server.accepting.wait()
        try:
            yield instance.ranks
        finally:
            cut = asyncio.get_running_loop().call_later(settings.drain_s, instance.cut)
            server.stop()
            await answering
            cut.cancel()
            if following is not None:
                following.cancel()


async def _until_signalled(served: Sequence[Served], on_listening: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    stop, up = asyncio.Event(), asyncio.Semaphore(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    lives: list[Ranks] = []

    async def serve(each: Served) -> None:
        async with running(*each) as live:
            lives.append(live)
            up.release()
            await stop.wait()

    def cut() -> None:
        for live in lives:
            live.cancel_all()

    try:
        async with asyncio.TaskGroup() as group:
            for each in served:
                group.create_task(serve(each))
            for _ in served:
                await up.acquire()
            on_listening()
            await stop.wait()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, cut)
    except BaseExceptionGroup as errors:  # not `except*`: Python 3.11.2 wraps exceptions raised there
        found, others = errors.split(OSError)
        if found is None or others is not None:
            raise
        raise _first(found) from None


def _first(error: BaseException) -> BaseException:
    """The first error of several servers, without the group around it."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _certificate(settings: ServerSettings, host: str) -> tls.Certificate | None:
    if settings.self_signed_certs:
        return tls.self_signed(host)
    if settings.ssl_certfile is None or settings.ssl_keyfile is None:
        return None
    return tls.Certificate(settings.ssl_certfile, settings.ssl_keyfile)


def _uvicorn_config(
    app: EngineApp, settings: ServerSettings, certificate: tls.Certificate | None
) -> uvicorn.Config:
    config = serving.configuration(
        app,
        http="httptools",
        ws="wsproto",
        timeout_keep_alive=KEEP_ALIVE_S,
        proxy_headers=False,
        # Streams are cut after `drain_s`; this is for clients that do not even read that.
        timeout_graceful_shutdown=settings.drain_s + 1,
    )
    if certificate is not None:
        config.load()
        config.ssl = certificate.context
    return config
