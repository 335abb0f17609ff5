"""Converts an endpoint's response for the client: its head, its framing, its events.

Drops hop-by-hop headers, and removes chunk framing for HTTP/1.0 clients. Event streams pass through
EventStream, which can end them properly. JSON in which the client's model name is restored passes through
Document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httptools

from headgate.dataplane.rewriting.chunks import Chunks
from headgate.dataplane.rewriting.document import Document
from headgate.dataplane.rewriting.events import EventStream
from headgate.gateway import cors
from headgate.gateway.policy import HSTS
from headgate.gateway.refusals import status_line
from headgate.gateway.request import HOP_BY_HOP, LETTER_X, RESERVED, Request, nominated
from headgate.requests.client import Header
from headgate.requests.responses import SWITCHING

_OF_ITS_OWN: Final = HOP_BY_HOP | {b"alt-svc", b"x-request-id", b"content-encoding"}
"""Headers with special treatment. `alt-svc` describes the origin that the client knows, which is the gateway,
not the engine."""
_HIDDEN: Final = (*RESERVED, b"x-ratelimit-")
"""Prefixes of headers that are not forwarded if the gateway sends its own limit headers."""
EVENTS, _JSON = b"text/event-stream", b"application/json"
_NO_CONTENT, _NOT_MODIFIED = 204, 304
_NO_BODY: Final = frozenset({SWITCHING, _NO_CONTENT, _NOT_MODIFIED})
"""Statuses whose responses have no body, whatever their headers say. What follows a switch of protocols is
none."""


class Response:
    """One response on its way to the client.

    `may_keep_alive`: the client's connection may stay open afterwards. `takes_usage`: remove events with
    nothing but usage. `name`: the client's model name as a JSON string; empty if the endpoint uses the same
    name. `limit_lines`: header lines about the route's limit, which replace the endpoint's own. Raises
    HttpParserError if the framing of the body cannot be forwarded.
    """

    __slots__ = (
        "_body",
        "_framing",
        "_head",
        "ends_with_connection",
        "is_encoded",
        "is_plain",
        "keep_alive",
        "unchunker",
    )

    def __init__(
        self,
        request: Request,
        request_id: bytes,
        status: int,
        headers: list[Header],
        may_keep_alive: bool,
        is_stream: bool,
        takes_usage: bool,
        name: bytes = b"",
        limit_lines: bytes = b"",
    ) -> None:
        self.keep_alive = may_keep_alive
        self.ends_with_connection = False
        """Whether the body has no length: it is complete when the endpoint closes its connection."""
        self.is_encoded = False
        """Whether it is compressed, although that was not requested."""
        self.unchunker: Chunks | None = None
        """Removes chunk framing for a client that does not support it; None otherwise."""
        self._framing: Chunks | None = None
        """Bounds the framing of chunks that are forwarded unchanged; None if something else does."""
        self._body: EventStream | Document | None = None
        """Changes the body on its way; None if it is forwarded unchanged."""
        parts = [status_line(status), request.response_lines, limit_lines]
        hidden = RESERVED if not limit_lines else _HIDDEN
        chunked = is_changed = False
        length: int | None = None
        kind = b""
        if (is_stream or name) and status not in _NO_BODY:
            kind = media_type(headers)
            is_changed = (status == 200 and kind == EVENTS) or (bool(name) and kind == _JSON)
        if dropped := nominated(headers):
            headers = [header for header in headers if header[0] not in dropped]
        if request.response_lines and not request.response_lines.startswith(HSTS):
            headers = [header for header in headers if not header[0].startswith(cors.PREFIX)]
        for key, value in headers:
            if key == b"content-length":
                length = int(value)
                if is_changed or status == _NO_CONTENT:
                    continue
            if key in _OF_ITS_OWN:
                if key == b"content-encoding":
                    self.is_encoded = self.is_encoded or is_encoded(value)
                    parts += (key, b": ", value, b"\r\n")
                elif key == b"transfer-encoding":
                    if chunked or value.lower() != b"chunked":
                        raise httptools.HttpParserError("it has a transfer-encoding other than chunked")
                    chunked = True
            elif key[0] != LETTER_X or not key.startswith(hidden):
                parts += (key, b": ", value, b"\r\n")
        parts += (b"x-request-id: ", request_id, b"\r\n")
        if status in _NO_BODY:
            pass
        elif chunked:
            if request.is_http_1_0:
                self.unchunker = Chunks()
            else:
                self._framing = None if is_changed else Chunks()
                parts.append(b"transfer-encoding: chunked\r\n")
        elif length is None:
            self.ends_with_connection = True
            self.keep_alive = False
        elif is_changed and (kind == EVENTS or request.is_http_1_0):
            self.keep_alive = False  # its length may change on the way
            length = None
        if is_changed:
            is_chunked = chunked and not request.is_http_1_0
            if kind == EVENTS:
                self._body = EventStream(is_chunked=is_chunked, takes_usage=takes_usage, name=name)
            else:
                self._body = Document(name, length=length, is_chunked=is_chunked)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        self.is_plain = self._body is None
        """Whether the body is forwarded unchanged."""
        if self.is_plain or not self._is_holding:
            parts.append(b"\r\n")
        self._head = b"".join(parts)
        """Sent together with the first bytes of the body."""

    @property
    def has_begun(self) -> bool:
        """Whether any part was sent to the client."""
        return not self._head

    def add(self, line: bytes) -> None:
        """Add a header line to the head, which must not have been sent yet."""
        self._head = self._head.replace(b"\r\n", b"\r\n" + line, 1)

    @property
    def is_chunked(self) -> bool:
        """Whether a body that is forwarded unchanged has chunk framing."""
        return self._framing is not None

    @property
    def taken_bytes(self) -> int:
        """Bytes removed from the body by the gateway."""
        return self._body.taken_bytes if self._body is not None else 0

    @property
    def _is_holding(self) -> bool:
        """Whether the end of the head is held back until the first bytes of the body."""
        return isinstance(self._body, Document) and self._body.is_holding

    def pass_on(self, data: bytes) -> bytes:
        """The bytes for the client from these bytes of the body; the first call includes the head."""
        if self._body is not None:
            data = self._body.feed(data) if data or self._is_holding else data
            if self._is_holding:
                return b""
        elif self._framing is not None:
            self._framing.follow(data)
        if self._head:
            data, self._head = self._head + data, b""
        return data

    @property
    def is_straight(self) -> bool:
        """Whether further bytes can skip `pass_on`, and need only `change`."""
        return self.unchunker is None and not self._head

    @property
    def change(self) -> Callable[[bytes], bytes] | None:
        """Converts further bytes for the client; None if they are forwarded unchanged."""
        body = self._body
        if body is None:
            return None if self._framing is None else self._framing.follow
        return None if isinstance(body, Document) and body.is_plain else body.feed

    def flush(self) -> bytes:
        """The bytes held back at the end of a complete response."""
        return self._body.flush() if self._body is not None else b""

    def cut_off(self, error_event: Callable[[], bytes]) -> bytes | None:
        """End a broken stream with an error event; None if that is not possible."""
        if not isinstance(self._body, EventStream):
            return None
        last = self._body.cut_off(error_event())
        if last is not None and self._head:
            last, self._head = self._head + last, b""
        return last


def media_type(headers: list[Header]) -> bytes:
    """The media type of the body; empty if it is compressed, so that nothing in it can be changed."""
    kind = b""
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
        elif name == b"content-encoding" and is_encoded(value):
            return b""
    return kind


def is_encoded(coding: bytes) -> bool:
    """Whether a `content-encoding` is other than identity."""
    return coding.strip().lower() not in (b"", b"identity")
