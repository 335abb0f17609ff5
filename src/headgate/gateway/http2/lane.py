"""One request at a time of an HTTP/2 connection, as the transport of an HTTP/1.1 connection.

A lane is used for one stream after the other, so that its connection recognizes repeated heads.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from headgate.gateway.http2.response import ResponseForm
from headgate.http2 import Headers, Stream, errors, frames

if TYPE_CHECKING:
    from headgate.gateway.http2.request_head import RequestHead
    from headgate.http2 import Connection, Http2

log = logging.getLogger(__name__)

_CHUNKED: Final = b"transfer-encoding: chunked\r\n\r\n"


class Owner(Protocol):
    """The streams of the connection."""

    @property
    def connection(self) -> Connection | None:
        """None once it is lost."""
        ...

    def get_extra_info(self, name: str) -> Any: ...
    def is_free(self, lane: Lane) -> None:
        """Another request may use the lane."""

    def is_gone(self, lane: Lane, *, was_idle: bool) -> None:
        """No request may use the lane any more."""

    def is_refused(self, lane: Lane) -> None:
        """The client is refused before it has sent a request."""


class Lane:
    """An asyncio transport by its methods, and the user of a stream."""

    __slots__ = (
        "_awaited",
        "_declared",
        "_head",
        "_is_closing",
        "_is_stopped",
        "_loop",
        "_owner",
        "_pending",
        "_response",
        "_size",
        "_stream",
        "protocol",
    )

    def __init__(self, owner: Owner, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._loop = loop
        self.protocol = protocol
        self._stream: Stream | None = None
        self._head = b""
        """The head of the request, until it is passed on."""
        self._pending: list[bytes] = []
        """Parts of the body that are not passed on yet."""
        self._declared = -1
        """Length of the body, as the client says; -1 if it does not."""
        self._size = 0
        """Bytes of the body so far."""
        self._awaited = False
        """Whether more of the body is to come."""
        self._response = ResponseForm(False)
        self._is_stopped = False
        """Whether the protocol is told to write no more."""
        self._is_closing = False

    def connect(self) -> None:
        self.protocol.connection_made(self)  # type: ignore[arg-type]

    @property
    def is_idle(self) -> bool:
        """Whether it has no request."""
        return self._stream is None and not self._awaited

    # -- the request

    def begin(self, stream: Stream, head: RequestHead) -> None:
        """Take the request of a stream."""
        self._stream, stream.user = stream, self
        self._head, self._declared = head.text, head.length
        self._size, self._awaited = 0, True
        self._response = ResponseForm(head.has_no_content)
        if not stream.is_received:
            self._loop.call_soon(self._deliver)  # unless the rest comes in this turn

    def receive(self, data: bytes, begin: int, end: int) -> None:
        """Part of the body arrived."""
        self._size += end - begin
        if 0 <= self._declared < self._size:
            self._is_malformed()
            return
        if not self._pending and not self._head:
            self._loop.call_soon(self._deliver)
        self._pending.append(data[begin:end])

    def receive_headers(self, headers: Headers) -> None:
        self._is_malformed()

    def receive_end(self, headers: Headers) -> None:
        """The request is complete; trailers are dropped."""
        if 0 <= self._declared != self._size:
            self._is_malformed()
            return
        self._awaited = False
        self._deliver(is_last=True)

    def _is_malformed(self) -> None:
        """The request is not valid (RFC 9113, 8.1.1)."""
        self._cancel(errors.PROTOCOL_ERROR)

    def _cancel(self, code: int) -> None:
        """End the stream with an error."""
        was_idle, connection = self.is_idle, self._owner.connection
        stream, self._stream = self._stream, None
        if stream is not None and connection is not None:
            connection.http2.cancel(stream, code)
            connection.flush_soon()
        self._end(was_idle=was_idle)

    def _deliver(self, is_last: bool = False) -> None:
        """Pass on what has arrived, in the form of HTTP/1.1."""
        parts, self._pending = self._pending, []
        head, self._head = self._head, b""
        if self._is_closing:
            return
        if head:
            if self._declared < 0 and is_last and self._size:
                self._declared = self._size
            if self._declared >= 0:
                parts.insert(0, b"%bcontent-length: %d\r\n\r\n" % (head, self._declared))
            elif is_last:
                parts.insert(0, head + b"\r\n")
            else:
                parts = [head + _CHUNKED, *_chunks(parts)]
        elif self._declared < 0:
            parts = [*_chunks(parts)]
            if is_last:
                parts.append(b"0\r\n\r\n")
        if not parts:
            return
        try:
            self.protocol.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        except Exception:
            log.exception("a request over HTTP/2 could not be handled")
            self.abort()

    def expire(self) -> None:
        """Nothing is awaited by `Http2.await_rest`."""

    def lose(self, code: int, reason: str, is_unprocessed: bool) -> None:
        """The client has cancelled the request, or its connection has ended."""
        self._stream = None
        self._end()

    def tell_writable(self) -> None:
        if self._is_stopped:
            self._is_stopped = False
            self.protocol.resume_writing()

    # -- the response

    def write(self, data: bytes) -> None:
        stream, connection, response = self._stream, self._owner.connection, self._response
        if self._is_closing or connection is None:
            return
        if stream is None:
            self._owner.is_refused(self)
            return
        while data:
            block, is_interim, content, is_complete = response.feed(data)
            data = b""
            if block:
                stream.was_answered = stream.was_answered or not is_interim
                ends = is_complete and not content
                flags = frames.END_STREAM if ends else 0
                made = frames.header_frames(stream.id, block, flags)
                if ends:
                    self._finish(stream)
                    connection.http2.end(stream, made)
                    break
                connection.http2.sender.control(made)
                if is_interim:
                    data = response.take_rest()
                    continue
            if not self._send(connection.http2, stream, content, is_complete):
                break
        connection.flush_soon()

    def _send(self, http2: Http2, stream: Stream, content: bytes, is_complete: bool) -> bool:
        """Send content. Returns whether the stream continues."""
        if is_complete:
            self._finish(stream)
            if not http2.send_last(stream, content):
                http2.cancel(stream, errors.ENHANCE_YOUR_CALM)
            return False
        if content and not http2.send(stream, content):
            http2.fail(stream, errors.ENHANCE_YOUR_CALM, "unsent data of all clients exceeds its limit")
            return False
        if stream.is_full and not self._is_stopped:
            self._is_stopped = True
            self.protocol.pause_writing()
        return True

    def _finish(self, stream: Stream) -> None:
        """The response is complete: the stream is let go, and the lane is free once the protocol is."""
        self._stream = None
        if self._is_stopped:
            self._is_stopped = False
            self._loop.call_soon(self.protocol.resume_writing)
        if self._awaited or self._response.is_last:
            self._end()  # the rest of the request is of no interest
        else:
            self._owner.is_free(self)

    # -- the transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None if name == "socket" else self._owner.get_extra_info(name)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits of streams are those of their connection."""

    def get_write_buffer_size(self) -> int:
        return self._stream.queued_bytes if self._stream is not None else 0

    def pause_reading(self) -> None:
        connection = self._owner.connection
        if self._stream is not None and connection is not None:
            connection.http2.pause(self._stream)

    def resume_reading(self) -> None:
        connection = self._owner.connection
        if self._stream is not None and self._stream.is_paused and connection is not None:
            connection.http2.resume(self._stream)
            connection.flush_soon()

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        """The response before it has ended the stream."""

    def close(self) -> None:
        """End the response, if it has no length."""
        stream, connection = self._stream, self._owner.connection
        if stream is not None and connection is not None and self._response.ends_with_connection:
            self._stream = None
            connection.http2.end(stream, frames.frame(frames.DATA, stream.id, b"", frames.END_STREAM))
            connection.flush_soon()
            self._end()
        else:
            self._cancel(errors.INTERNAL_ERROR)

    def abort(self) -> None:
        """End the stream with an error: its response is not complete."""
        self._cancel(errors.INTERNAL_ERROR)

    def _end(self, *, was_idle: bool = False) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._pending, self._head = [], b""
            self._owner.is_gone(self, was_idle=was_idle)
            self._loop.call_soon(self.protocol.connection_lost, None)


def _chunks(parts: list[bytes]) -> list[bytes]:
    return [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
