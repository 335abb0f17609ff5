"""The server: its sockets, startup, and a shutdown that does not wait for silent peers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import uvicorn

from headgate.serving.protocol import BoundedProtocol, Limits, Reason, State, within

BACKLOG = 4096
"""Length of the queue for connections to accept."""

LEAVE_S = 0.1
"""How long an accepted connection has to send a request when the server leaves."""

Application = Callable[..., Awaitable[Any]]


def drop_stalled(listener: socket.socket, limits: Limits) -> None:
    """Close each accepted connection whose peer accepts no data for `stalled_s`.

    Only Linux supports this. Elsewhere, such a connection stays until its server closes it; its memory is
    limited all the same.
    """
    if option := getattr(socket, "TCP_USER_TIMEOUT", None):
        listener.setsockopt(socket.IPPROTO_TCP, option, int(limits.stalled_s * 1000))


class EmbeddedServer(uvicorn.Server):
    """uvicorn that leaves signals to its process, and waits for an event instead of polling every 0.1 s.

    Its configuration must disable the Date header, which the omitted tick would update.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state: State = State()
        self.accepting = asyncio.Event()
        """Set once connections are accepted."""
        self._stopping = asyncio.Event()
        self._listeners: list[Listener] = []
        self.servers = []

    def stop(self) -> None:
        """Make `serve` finish the responses in progress and return."""
        self._stopping.set()

    async def aclose(self) -> None:
        """Release the port even if `serve` was cancelled, where uvicorn would keep it.

        Peers in a TLS handshake are closed too: neither uvicorn nor asyncio can reach those.
        """
        for listener in self.servers:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        accepted = self._accepted()
        _cut(accepted)
        # The loop closes them when it notices, which takes a few turns.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while any(peer.fileno() >= 0 for peer in accepted):  # noqa: ASYNC110 (the loop has no event)
                    await asyncio.sleep(0.001)

    def _accepted(self) -> list[socket.socket]:
        return [peer for listener in self._listeners for peer in listener.accepted]

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._listeners = [each for each in sockets or () if isinstance(each, Listener)]
        for listener in self._listeners:
            listener.keep_spare()
        await super().serve(sockets)

    async def main_loop(self) -> None:
        self.accepting.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's, but closes idle connections at once: over TLS uvicorn would wait for silent peers.

        It would lose connections that asyncio accepts in the same turn of the loop in which a server closes.
        Peers in a TLS handshake have no connection object yet, and since Python 3.12 closing waits for them.
        """
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)
        if self.config.is_ssl:
            greeted = {
                connection.transport.get_extra_info("socket").fileno()
                for connection in self.server_state.connections
            }
            _cut(peer for peer in self._accepted() if peer.fileno() not in greeted)
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is None or cycle.response_complete:
                connection.transport.abort()
        await super().shutdown(sockets)

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def _cut(peers: Iterable[socket.socket]) -> None:
    """Shut connections down so that the loop notices, and closes them."""
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)


def configuration(app: Application, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for an EmbeddedServer: no logs, HTTP/1.1 only, default limits; `options` are
    uvicorn's."""
    quiet: dict[str, Any] = {
        "http": BoundedProtocol,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
    }
    return uvicorn.Config(app, **quiet | options)


async def serve_page(
    app: Application,
    listener: socket.socket,
    leave: asyncio.Event | None = None,
    limits: Limits | None = None,
    rejected: Callable[[Reason], None] = lambda reason: None,
) -> None:
    """Serve a small application on a bound socket until cancelled. Calls `rejected` for each connection that
    is closed for exceeding a limit.

    If `leave` is set, it stops: accepted connections get their response, and the others stay in the queue of
    the socket, for another process that has it open.
    """
    limits = limits or Limits()
    drop_stalled(listener, limits)
    options: dict[str, Any] = {
        "http": within(limits, rejected),
        "backlog": 2 * limits.connections,  # also the most connections accepted in one turn of the loop
        "timeout_graceful_shutdown": 1,
    }
    server = EmbeddedServer(configuration(app, **options))
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


_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


class Listener(socket.socket):
    """A socket that tracks its accepted connections, if the loop accepts through it (uvloop does not).

    When the process has no free descriptor, it closes new connections, using a spare descriptor. asyncio
    would log one error for each place in the backlog, every second.
    """

    def __init__(self, family: int, descriptor: int | None = None) -> None:
        """`descriptor` belongs to a socket that is already open."""
        # asyncio disables Nagle's algorithm (40 ms per response) only for a socket that declares TCP.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
        self.accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self.on_turned_away: Callable[[], None] = lambda: None
        """Called for each connection that is closed because the process has no free descriptor."""
        self._spare: int | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            peer, address = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS or self._spare is None:
                raise
            self._turn_away()
            raise ConnectionAbortedError(error.errno, "out of descriptors") from error
        self.accepted.add(peer)
        return peer, address

    def keep_spare(self) -> None:
        """Open the spare descriptor, if there is a free one."""
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _turn_away(self) -> None:
        self._give_up_spare()
        with contextlib.suppress(OSError):
            super().accept()[0].close()
            self.on_turned_away()
        self.keep_spare()

    def _give_up_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            os.close(spare)

    def close(self) -> None:
        self._give_up_spare()
        super().close()


class Use(NamedTuple):
    """The purpose of an address, and the settings that change it, for error messages."""

    purpose: str
    host_setting: str
    port_setting: str


def without_address(host: str, error: socket.gaierror | UnicodeError) -> str:
    """Why a host name cannot be listened on."""
    why = error.strerror if isinstance(error, socket.gaierror) else "it is not a valid name"
    return f"{host} has no address ({why})"


def listening_socket(host: str, port: int, *, shared: bool = False, use: Use | None = None) -> Listener:
    """A bound socket; `shared` lets several processes listen on the same address.

    Raises OSError with the address in its message, and with the purpose and settings in `use`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except (socket.gaierror, UnicodeError) as error:
        listener.close()
        setting = f"; set {use.host_setting}" if use is not None else ""
        raise OSError(errno.EADDRNOTAVAIL, f"{without_address(host, error)}{setting}") from error
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno or 0)
        if use is None:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error
        is_host = error.errno == errno.EADDRNOTAVAIL
        remedy = f"choose another {'address' if is_host else 'port'} with {use[1] if is_host else use[2]}"
        message = f"cannot listen on {host}:{port} for {use.purpose}: {reason}; {remedy}"
        raise OSError(error.errno, message) from error
    listener.setblocking(False)
    return listener
