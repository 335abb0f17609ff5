"""Serves ASGI applications inside a process that has other things to do: its loop, its signals, its log.

What clients may take up is bounded: connections, sizes and times, see `Limits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import re
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, TypeAlias

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

BACKLOG = 4096
"""Connections that may wait until they are accepted."""

LEAVE_S = 0.1
"""How long who was just accepted may take to send a request."""

MAX_PIPELINED = 16
"""Requests that a client may send before it has the response to the first."""
MAX_FRAMING_BYTES = 1 << 20
"""Of chunk sizes and trailers, however long the body is."""

_AUTHORITY = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")

Application = Callable[..., Awaitable[Any]]
Reason: TypeAlias = Literal[
    "too_many_connections", "head_too_large", "request_timeout", "too_many_pipelined", "out_of_descriptors"
]
"""Why a connection was ended."""


@dataclass(frozen=True)
class Limits:
    """What the clients of one server may take up. Whatever exceeds a limit is rejected and disconnected."""

    connections: int = 64
    """At one more, the connection that has waited longest for its client is closed, so that idle or slow
    clients never lock others out. If all are being answered, the new one is rejected."""
    head_bytes: int = 16 * 1024
    """Of a request line and all headers. Chunk sizes and trailers may be longer by the length of the body."""
    request_s: float = 10.0
    """From a request's first byte (or the connection's beginning) to the last byte of its body."""
    stalled_s: float = 30.0
    """How long a client may take nothing of what is sent to it."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits. uvicorn bounds none of these; the size of a body is bounded by
    whoever reads it.

    `within` makes subclasses with limits of their own.
    """

    limits = Limits()
    rejected: Callable[[Reason], None] = staticmethod(lambda reason: None)
    """Called for each connection that is ended for exceeding a limit."""
    _arriving: asyncio.TimerHandle | None = None
    """Runs until all of a request has arrived."""
    _waits_from = math.inf
    """Since when the server waits for the client."""
    _overhead = _body = 0
    """Bytes of the request that is arriving: of its body, and all others."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._make_room():
            told = f"the limit is {self.limits.connections} connections: try again"
            self._reject("too_many_connections", told)
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._overhead += len(data)
        super().data_received(data)
        most = self.limits.head_bytes + min(self._body, MAX_FRAMING_BYTES)
        if self._overhead > most and not self.transport.is_closing():
            told = f"the request line and the headers have more than {self.limits.head_bytes} bytes"
            self._reject("head_too_large", told)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= MAX_PIPELINED:
            self.rejected("too_many_pipelined")
            raise httptools.HttpParserError("too many requests at a time")  # answered with 400
        if self._arriving is None:
            self._expect_request()

    def on_headers_complete(self) -> None:
        """Where the target is a URL, its host counts and that of the header does not (RFC 9112, 3.2.2)."""
        if found := _AUTHORITY.match(self.url):
            others = [header for header in self.headers if header[0] != b"host"]
            self.headers[:] = [(b"host", found[1]), *others]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arrived()
        self._overhead = self._body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._waits_from = self.loop.time()
        super().on_response_complete()

    def _expect_request(self) -> None:
        self._waits_from = self.loop.time()
        self._arriving = self.loop.call_later(self.limits.request_s, self._too_slow)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _too_slow(self) -> None:
        self._reject(
            "request_timeout", f"the request did not arrive within {self.limits.request_s:g} seconds"
        )

    @property
    def _is_waiting(self) -> bool:
        """Whether it is the client's turn, and nothing would be lost if it were disconnected."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return (is_answered or self._arriving is not None) and not self.transport.is_closing()

    def _make_room(self) -> bool:
        """Closes the connection that has waited longest; returns whether there is room now."""
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        if sum(not each.transport.is_closing() for each in others) < self.limits.connections:
            return True  # some are closed, though not yet gone
        waiting = [each for each in others if each._is_waiting]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._waits_from)
        self.rejected("too_many_connections")
        oldest.transport.abort()
        return True

    def _reject(self, reason: Reason, told: str) -> None:
        """Answers, if nothing of another answer was sent, and closes without waiting for the peer."""
        self._arrived()
        self.rejected(reason)
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            status, headers, body = self.rejection(reason, told)
            lines = (b"content-type: application/json", *headers, b"content-length: %d" % len(body))
            head = b"\r\n".join((b"HTTP/1.1 %d " % status, *lines, b"connection: close\r\n\r\n"))
            self.transport.write(head + body)
        self.transport.close()

    def rejection(self, reason: Reason, told: str) -> tuple[int, list[bytes], bytes]:
        """The status of a rejection, its header lines besides those of any JSON, and its body."""
        status = _STATUSES[reason]
        retry = [b"retry-after: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []
        return status, retry, msgspec.json.encode({"message": told})


_STATUSES: dict[Reason, HTTPStatus] = {
    "too_many_connections": HTTPStatus.SERVICE_UNAVAILABLE,
    "head_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "request_timeout": HTTPStatus.REQUEST_TIMEOUT,
}


def within(limits: Limits, rejected: Callable[[Reason], None]) -> type[BoundedProtocol]:
    """The protocol class for these limits."""
    members = {"limits": limits, "rejected": staticmethod(rejected)}
    return type(BoundedProtocol.__name__, (BoundedProtocol,), members)


def drop_stalled(listener: socket.socket, limits: Limits) -> None:
    """Ends each accepted connection whose peer takes nothing of what was sent to it for `stalled_s`.

    Where the system cannot (only Linux can), such a connection stays until its server closes it; what it
    holds in memory is bounded all the same.
    """
    if option := getattr(socket, "TCP_USER_TIMEOUT", None):
        listener.setsockopt(socket.IPPROTO_TCP, option, int(limits.stalled_s * 1000))


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
        accepted = self._accepted()
        _cut(accepted)
        # The loop closes them as it notices, which takes a few turns.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while any(peer.fileno() >= 0 for peer in accepted):  # noqa: ASYNC110 (the loop tells nobody)
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
        """As uvicorn's, but idle connections end at once: over TLS it would wait for silent peers.

        Whom asyncio accepts in the same turn of the loop in which a server closes, it would lose. Peers amid
        a TLS handshake have no connection yet, and from Python 3.12 on closing waits for them.
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
    """Ends connections so that the loop notices, which then closes them."""
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)


def configuration(app: Application, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for an EmbeddedServer: quiet, HTTP/1.1 only, within default limits; `options`
    are uvicorn's."""
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
    """Serves a small application on a bound socket until cancelled. `rejected` is called for each connection
    that is ended for exceeding a limit.

    Or until `leave` is set: then whoever was accepted is answered, and the others stay in the queue of the
    socket, for whoever else has it open.
    """
    limits = limits or Limits()
    drop_stalled(listener, limits)
    options: dict[str, Any] = {
        "http": within(limits, rejected),
        "backlog": 2 * limits.connections,  # also the most that are accepted in one turn of the loop
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
    """A socket that knows whom it accepted, where the loop accepts through it (uvloop does not).

    When the process has no free descriptor, it closes whoever connects, with a spare descriptor kept for
    that. asyncio would log one error for each place in the backlog, every second.
    """

    def __init__(self, family: int, descriptor: int | None = None) -> None:
        """`descriptor` is of a socket that is open already."""
        # asyncio turns Nagle's delay off (40 ms an answer) only where a socket says that it is TCP.
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
        """Opens the spare descriptor, if there is a free one."""
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
    """What an address is for, and which settings change it: the words of an error."""

    purpose: str
    host_setting: str
    port_setting: str


def without_address(host: str, error: socket.gaierror | UnicodeError) -> str:
    """Why a host name cannot be listened on."""
    why = error.strerror if isinstance(error, socket.gaierror) else "it is not a valid name"
    return f"{host} has no address ({why})"


def listening_socket(host: str, port: int, *, shared: bool = False, use: Use | None = None) -> Listener:
    """A bound socket; `shared` lets several processes listen on the same address.

    Raises OSError with the address in its text, and with what `use` says.
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
