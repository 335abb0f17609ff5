"""Serves ASGI applications inside a process that has other things to do: its loop, its signals, its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

BACKLOG = 4096
"""Connections that may wait until they are accepted."""

LEAVE_S = 0.1
"""How long who was just accepted may take to send a request."""

Application = Callable[..., Awaitable[Any]]


class EmbeddedServer(uvicorn.Server):
    """uvicorn that leaves signals to its process, and waits for an event where it would look every 0.1 s.

    Its configuration must turn the Date header off: the tick that is left out keeps it current.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        """Set once connections are accepted."""
        self._stopping = asyncio.Event()
        self._listeners: list[Listener] = []
        self.servers = []

    def stop(self) -> None:
        """Makes `serve` finish what is being answered, then return."""
        self._stopping.set()

    async def aclose(self) -> None:
        """Lets go of the port even if `serve` was cancelled, where uvicorn would keep it.

        Peers amid a TLS handshake are let go too: neither uvicorn nor asyncio can reach those.
        """
        for listener in self.servers:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        accepted = [peer for listener in self._listeners for peer in listener.accepted]
        for peer in accepted:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        # The loop closes them as it notices, which takes a few turns.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while any(peer.fileno() >= 0 for peer in accepted):  # noqa: ASYNC110 (the loop tells nobody)
                    await asyncio.sleep(0.001)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._listeners = [each for each in sockets or () if isinstance(each, Listener)]
        await super().serve(sockets)

    async def main_loop(self) -> None:
        self.accepting.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, but idle connections end at once: over TLS it would wait for silent peers.

        Whom asyncio accepts in the same turn of the loop in which a server closes, it would lose.
        """
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is None or cycle.response_complete:
                connection.transport.abort()
        await super().shutdown(sockets)

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def configuration(app: Application, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for an EmbeddedServer: quiet, HTTP/1.1 only; `options` are uvicorn's."""
    quiet: dict[str, Any] = {
        "http": "httptools",
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
    }
    return uvicorn.Config(app, **quiet | options)


async def serve_page(
    app: Application, listener: socket.socket, leave: asyncio.Event | None = None, most: int = 64
) -> None:
    """Serves a small application on a bound socket until cancelled; beyond `most` connections it says 503.

    Or until `leave` is set: then whoever was accepted is answered, and the others stay in the queue of the
    socket, for whoever else has it open.
    """
    server = EmbeddedServer(configuration(app, timeout_graceful_shutdown=1, limit_concurrency=most))
    async with contextlib.aclosing(server), asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve(sockets=[listener]))
        leaving = tasks.create_task(_leave(server, listener, leave or asyncio.Event()))
        await serving
        leaving.cancel()


async def _leave(server: EmbeddedServer, listener: socket.socket, leave: asyncio.Event) -> None:
    await leave.wait()
    asyncio.get_running_loop().remove_reader(listener)
    await asyncio.sleep(LEAVE_S)
    server.stop()


class Listener(socket.socket):
    """A socket that knows whom it accepted, where the loop accepts through it (uvloop does not)."""

    def __init__(self, family: int) -> None:
        # asyncio turns Nagle's delay off (40 ms an answer) only where a socket says that it is TCP.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        peer, address = super().accept()
        self.accepted.add(peer)
        return peer, address


def listening_socket(host: str, port: int, *, shared: bool = False) -> Listener:
    """A bound socket; `shared` lets several processes listen on the same address.

    Raises OSError with the address in its text.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno or 0)
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error
    listener.setblocking(False)
    return listener
