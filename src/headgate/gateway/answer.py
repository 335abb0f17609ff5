"""The form in which an endpoint's answer reaches the client: its head, its framing, its events.

Hop-by-hop headers are dropped, HTTP/1.0 clients get no chunks, and streams of events pass through
EventStream, which can end them well.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools

from headgate.gateway import cors
from headgate.gateway.events import EventStream
from headgate.gateway.refusals import status_line
from headgate.gateway.request import HOP_BY_HOP, RESERVED, Header, Request, nominated

_NOT_RETURNED = HOP_BY_HOP | {b"x-request-id"}
_NO_BODY = frozenset({204, 304})
"""Statuses whose answers have no body, whatever they say."""


class Answer:
    """One answer on its way to the client.

    `may_keep_alive` is whether the client's connection may go on afterwards; `takes_usage` whether events
    with nothing but usage are taken out. Raises HttpParserError if the body is framed in a way that cannot
    be passed on.
    """

    __slots__ = ("_events", "_head", "_unchunker", "ends_with_connection", "keep_alive")

    def __init__(
        self,
        request: Request,
        request_id: bytes,
        status: int,
        headers: list[Header],
        *,
        may_keep_alive: bool,
        is_stream: bool,
        takes_usage: bool,
    ) -> None:
        self.keep_alive = may_keep_alive
        self.ends_with_connection = False
        """Whether the body has no length: it is complete when the endpoint closes its connection."""
        self._unchunker: _Unchunker | None = None
        self._events: EventStream | None = None
        parts = [status_line(status), request.answer_lines]
        chunked = has_length = False
        is_events = is_stream and status == 200 and _is_event_stream(headers)
        if dropped := nominated(headers):
            headers = [header for header in headers if header[0] not in dropped]
        if request.answer_lines:
            headers = [header for header in headers if not header[0].startswith(cors.PREFIX)]
        for name, value in headers:
            has_length |= name == b"content-length"
            if name in _NOT_RETURNED or (is_events and name == b"content-length"):
                if name == b"transfer-encoding":
                    if value.lower() != b"chunked":
                        raise httptools.HttpParserError("it has a transfer-encoding besides chunked")
                    chunked = True
            elif not name.startswith(RESERVED):
                parts += (name, b": ", value, b"\r\n")
        parts += (b"x-request-id: ", request_id, b"\r\n")
        if status in _NO_BODY:
            pass
        elif chunked:
            if request.is_http_1_0:
                self._unchunker = _Unchunker()
            else:
                parts.append(b"transfer-encoding: chunked\r\n")
        elif not has_length:
            self.ends_with_connection = True
            self.keep_alive = False
        elif is_events:
            self.keep_alive = False  # its length may change on the way
        if is_events:
            is_chunked = chunked and not request.is_http_1_0
            self._events = EventStream(is_chunked=is_chunked, takes_usage=takes_usage)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)
        """Waits to be sent together with the first bytes of the body."""

    @property
    def taken_bytes(self) -> int:
        """By how much a stream of events became shorter on the way."""
        return self._events.taken_bytes if self._events is not None else 0

    def unchunk(self, data: bytes) -> bytes:
        """The body's bytes without a framing that the client does not know."""
        return data if self._unchunker is None else self._unchunker.feed(data)

    def pass_on(self, data: bytes) -> bytes:
        """What the client gets for these bytes of the body; the first time with the head before it."""
        if self._events is not None and data:
            data = self._events.feed(data)
        return self._with_head(data)

    def filtered(self, write: Callable[[bytes], None]) -> Callable[[bytes], None] | None:
        """Writes further bytes in the shortest way; None if they must pass here."""
        if self._unchunker is not None:
            return None
        if self._events is None:
            return write
        feed = self._events.feed

        def write_filtered(data: bytes) -> None:
            passed = feed(data)
            if passed:
                write(passed)

        return write_filtered

    def flush(self) -> bytes:
        """What is held back at the end of a complete answer."""
        return self._events.flush() if self._events is not None else b""

    def cut_off(self, error_event: Callable[[], bytes]) -> bytes | None:
        """Ends a broken stream with the event that says why; None where that is not possible."""
        last = self._events.cut_off(error_event()) if self._events is not None else None
        return None if last is None else self._with_head(last)

    def _with_head(self, data: bytes) -> bytes:
        if self._head:
            data, self._head = self._head + data, b""
        return data


def _is_event_stream(headers: list[Header]) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers)


class _Unchunker:
    """Takes the chunk framing off, for clients of HTTP/1.0."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def feed(self, data: bytes) -> bytes:
        self._parser.feed_data(data)
        body = b"".join(self._parts)
        self._parts.clear()
        return body
