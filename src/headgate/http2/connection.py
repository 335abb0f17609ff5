"""The socket of an HTTP/2 connection: reads in turns, writes once per turn, and watches over silence."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, Final, Protocol, cast

from headgate import loop_turns
from headgate.http2 import errors, frames
from headgate.http2.errors import Http2Error
from headgate.http2.hpack import Headers
from headgate.http2.limits import Holdings, Limits
from headgate.http2.receiver import Receiver
from headgate.http2.stream import Stream
from headgate.http2.streams import ALL_STREAMS, Http2

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""In the socket's buffer, before data is queued with its stream."""
CLOSE_TIMEOUT_S: Final = 5.0
"""For the peer to read the last frames of a connection that is closed."""
ENDED_AT_ONCE: Final = 64
"""Streams of a lost connection that are cancelled in one turn of the event loop."""
DRAIN_PING_TIMEOUT_S: Final = 1.0
"""For a peer that is told that the connection drains, to show that it knows."""
DRAIN_PING: Final = b"draining"
ALIVE_PING: Final = b"headgate"


class Role(Protocol):
    """What a connection is used for: a server's streams, or a client's."""

    def opened(self, connection: Connection, stream: Stream, headers: Headers) -> None:
        """The peer has begun a stream."""

    def made(self, connection: Connection) -> None:
        """The connection can be used."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection has ended; its streams have been or will be told."""


class Connection(asyncio.Protocol):
    """One connection, of either side."""

    def __init__(
        self, role: Role, turns: loop_turns.Turns, limits: Limits, held: Holdings, *, is_client: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._role = role
        self._turns = turns
        self.http2 = Http2(limits, held, perf_counter(), is_client=is_client)
        self._receiver = Receiver(self.http2)
        self._socket: asyncio.Transport | None = None
        self._unread = b""
        """Received, but left for the next turn."""
        self._writes_later = False
        """Whether `flush` will be called without anybody asking for it."""
        self.reason = ""
        """Why the connection was ended from this side."""
        self._vigil = Vigil(self._loop.time())
        self.is_draining = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = socket = cast(asyncio.Transport, transport)
        socket.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        tls = socket.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self.reason = "the peer does not offer HTTP/2 (ALPN h2)"
            socket.abort()
            return
        self.flush()
        self._role.made(self)

    def data_received(self, data: bytes) -> None:
        self._vigil.has_heard = True
        if self._unread:
            self._unread += data  # it was in transit when reading was paused
        elif not self._turns.has_time:
            self._read_later(data)
        else:
            self._read(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._socket, self._unread = None, b""
        self.reason = self.reason or (f"the connection was lost: {error}" if error else "the peer closed it")
        self._role.lost(self, self.reason)
        self._end_calls()

    def pause_writing(self) -> None:
        self.http2.sender.may_write = False

    def resume_writing(self) -> None:
        self.http2.sender.may_write = True
        self.flush()

    # -- reading

    def _read(self, data: bytes) -> None:
        """Process what fits into this turn of the event loop."""
        if self._socket is None or self._socket.is_closing():
            return
        self._writes_later = True
        began = perf_counter()
        try:
            rest = self._receiver.receive(data, self, began, began + loop_turns.TURN_S)
        except Http2Error as fault:
            self.end(fault.code, str(fault))
            return
        finally:
            self._turns.spent(perf_counter() - began)
            self._writes_later = False
        self.flush()
        if rest:
            self._read_later(rest)

    def _read_later(self, data: bytes) -> None:
        self._unread = data
        if self._socket is not None and not self._socket.is_closing():
            self._socket.pause_reading()
        self._turns.wait(self._read_on)

    def _read_on(self) -> bool:
        data, self._unread = self._unread, b""
        if data:
            self._read(data)
        if not self._unread and self._socket is not None and not self._socket.is_closing():
            self._socket.resume_reading()
        return False

    # -- writing

    def flush(self) -> None:
        """Write what has been sent."""
        socket = self._socket
        if socket is None or socket.is_closing():
            return
        http2 = self.http2
        if data := http2.take():
            socket.write(data)
            if socket.get_write_buffer_size() > http2.limits.max_unread_bytes + WRITE_BUFFER_BYTES:
                self.abort("the peer does not read what it asked for")
                return
        if http2.sender.blocked and http2.sender.can_send:
            self.flush_soon()
        elif self.is_draining and not http2.streams and http2.accepted_until != ALL_STREAMS:
            self.close()

    def flush_soon(self) -> None:
        """Write what has been sent at the end of this turn of the event loop, if reading does not do it."""
        if not self._writes_later:
            self._writes_later = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._writes_later = False
        self.flush()

    # -- Owner, for http2

    def opened(self, stream: Stream, headers: Headers) -> None:
        self._role.opened(self, stream, headers)

    def acknowledged(self, data: bytes) -> None:
        if data == DRAIN_PING and self.is_draining:
            self._accept_no_more()

    def leaving(self) -> None:
        pass

    # -- its end

    @property
    def is_open(self) -> bool:
        """Whether streams can be begun on it."""
        return self._socket is not None and not self._socket.is_closing()

    def get_extra_info(self, name: str) -> Any:
        """What its socket knows, by the names of asyncio; None once it is closed."""
        return self._socket.get_extra_info(name) if self._socket is not None else None

    @property
    def peer_address(self) -> tuple[str, int] | str:
        """Host and port of the peer; its path for a Unix socket."""
        address = self._socket.get_extra_info("peername") if self._socket is not None else None
        return (address[0], address[1]) if isinstance(address, tuple) else str(address or "")

    def drain(self) -> None:
        """Let streams finish, then close the connection. They are accepted until the peer has been told."""
        if self.is_open and not self.is_draining:
            self.is_draining = True
            self.http2.announce_goaway(DRAIN_PING)
            self.flush_soon()
            self._loop.call_later(DRAIN_PING_TIMEOUT_S, self._accept_no_more)

    def _accept_no_more(self) -> None:
        """Name the last stream that is accepted; close the connection if none is in progress."""
        if self.is_open and self.http2.accepted_until == ALL_STREAMS:
            self.http2.goaway(errors.NO_ERROR)
            self.flush_soon()

    def end(self, code: int, reason: str) -> None:
        """Close the connection with an error; its streams end."""
        if self.is_open:
            self.reason = self.reason or reason
            self.http2.goaway(code, reason)
            self.http2.sender.may_write = False
            assert self._socket is not None
            self._socket.write(self.http2.sender.take())
            self.close()

    def close(self) -> None:
        """Close the connection, once what was written has been sent."""
        if self._socket is not None and not self._socket.is_closing():
            self._vigil.closed_at_s = self._loop.time()
            self._socket.close()

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self.reason = self.reason or reason
        if self._socket is not None:
            self._socket.abort()

    def _end_calls(self) -> None:
        streams = self.http2.streams
        for stream in [*streams.values()][:ENDED_AT_ONCE]:
            self.http2.fail(stream, errors.CONNECT_ERROR, self.reason)
        if streams:
            self._loop.call_soon(self._end_calls)

    def sweep(self, now_s: float) -> None:
        """End what has been silent, stalled or incomplete for too long; to be called every few seconds."""
        if self._socket is None:
            return
        reason = self._vigil.fault(now_s, self.http2, self._receiver.has_partial)
        if reason is not None:
            self.abort(reason)
            return
        self.http2.sweep(now_s)
        if self._vigil.asks(now_s, self.http2.limits):
            self.http2.sender.control(frames.ping(ALIVE_PING))
        self.flush_soon()


class Vigil:
    """Times of one connection, as seen by its sweeps. In seconds."""

    __slots__ = ("_asked_at_s", "_heard_at_s", "_made_at_s", "_partial_since_s", "closed_at_s", "has_heard")

    def __init__(self, now_s: float) -> None:
        self._made_at_s = now_s
        self._heard_at_s = now_s
        self._asked_at_s: float | None = None
        """When the peer was asked for a sign of life, which has not come yet."""
        self._partial_since_s: float | None = None
        self.closed_at_s: float | None = None
        self.has_heard = False
        """Whether data has arrived since the last sweep."""

    def fault(self, now_s: float, http2: Http2, has_partial: bool) -> str | None:
        """Why the connection must end; `has_partial`: whether a frame is incomplete."""
        limits = http2.limits
        if self.has_heard:
            self.has_heard, self._heard_at_s, self._asked_at_s = False, now_s, None
        if not has_partial:
            self._partial_since_s = None
        elif self._partial_since_s is None:
            self._partial_since_s = now_s
        if self.closed_at_s is not None:
            return "" if now_s - self.closed_at_s > CLOSE_TIMEOUT_S else None
        if not http2.peer.is_greeted and now_s - self._made_at_s > limits.handshake_timeout_s:
            return "the peer has not greeted in time"
        if self._asked_at_s is not None and now_s - self._asked_at_s > limits.keepalive_timeout_s:
            return "the peer gave no sign of life"
        if self._partial_since_s is not None and now_s - self._partial_since_s > limits.incomplete_timeout_s:
            return "a frame was incomplete for too long"
        return None

    def asks(self, now_s: float, limits: Limits) -> bool:
        """Whether the peer is to be asked for a sign of life now."""
        if self._asked_at_s is None and now_s - self._heard_at_s > limits.keepalive_s:
            self._asked_at_s = now_s
            return True
        return False
