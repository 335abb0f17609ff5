"""An endpoint's response after a head that was sent before it.

A client that asked for progress has received a 200, chunked event-stream headers, and some comments before
any endpoint was tried. The endpoint's response becomes further events of that stream: its events unchanged,
and anything else, such as an error, as one event with its body.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools
import msgspec

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, Chunks, chunk
from headgate.dataplane.rewriting.events import EventStream
from headgate.gateway.refusals import error_event, event
from headgate.gateway.response import EVENTS, media_type
from headgate.requests.client import Header
from headgate.requests.refusal import Refusal

MAX_BODY_BYTES = 64 * 1024
"""For a response that is held back to become one event."""


class Continuation:
    """One such response; used in place of an `Response`. Raises HttpParserError like it."""

    is_plain = is_encoded = False
    unchunker = None
    """The client supports chunks."""

    __slots__ = (
        "_chunks",
        "_held",
        "_size",
        "_status",
        "_stream",
        "_target",
        "ends_with_connection",
        "has_begun",
        "keep_alive",
    )

    def __init__(
        self,
        target: bytes,
        status: int,
        headers: list[Header],
        may_keep_alive: bool,
        takes_usage: bool,
        name: bytes = b"",
    ) -> None:
        self._target = target
        self._status = status
        self.keep_alive = may_keep_alive
        self.has_begun = False
        """Whether any part was sent to the client."""
        is_chunked = has_length = False
        for key, value in headers:
            if key == b"content-length":
                has_length = True
            elif key == b"transfer-encoding":
                if is_chunked or value.lower() != b"chunked":
                    raise httptools.HttpParserError("it has a transfer-encoding other than chunked")
                is_chunked = True
        self.ends_with_connection = not is_chunked and not has_length
        self._chunks = Chunks() if is_chunked else None
        is_stream = status == 200 and media_type(headers) == EVENTS
        self._stream = (
            EventStream(is_chunked=is_chunked, takes_usage=takes_usage, name=name) if is_stream else None
        )
        self._held: list[bytes] = []
        """The body, if it is not a stream."""
        self._size = 0

    def add(self, line: bytes) -> None:
        """Ignored: the head has been sent already."""

    @property
    def taken_bytes(self) -> int:
        """Bytes removed from the body by the gateway."""
        return self._stream.taken_bytes if self._stream is not None else 0

    def pass_on(self, data: bytes) -> bytes:
        """The bytes for the client from these bytes of the body."""
        if self._stream is None:
            self._hold(data)
            return b""
        passed = self._stream.feed(data) if data else b""
        if self._chunks is None:
            passed = chunk(passed)
        if passed:
            self.has_begun = True
        return passed

    @property
    def is_straight(self) -> bool:
        """Whether further bytes can skip `pass_on`, and need only `change`."""
        return self._stream is not None and self._chunks is not None

    @property
    def change(self) -> Callable[[bytes], bytes] | None:
        """Converts further bytes for the client."""
        return self._stream.feed if self._stream is not None else None

    def flush(self) -> bytes:
        """The end of a complete response."""
        if self._stream is None:
            return chunk(self._as_event()) + LAST_CHUNK
        return chunk(self._stream.flush()) + LAST_CHUNK if self._chunks is None else b""

    def cut_off(self, error_event: Callable[[], bytes]) -> bytes | None:
        """End a broken stream with an error event; None if that is not possible."""
        if self._stream is None:
            return chunk(error_event()) + LAST_CHUNK
        last = self._stream.cut_off(error_event())
        if last is None or self._chunks is not None:
            return last
        return chunk(last) + LAST_CHUNK

    def _hold(self, data: bytes) -> None:
        payload = data if self._chunks is None else self._chunks.feed(data)[0]
        self._size += len(payload)
        if self._size <= MAX_BODY_BYTES:
            self._held.append(payload)

    def _as_event(self) -> bytes:
        """The body as an event of the target's API."""
        if self._size <= MAX_BODY_BYTES:
            try:
                said = msgspec.json.encode(msgspec.json.decode(b"".join(self._held)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            else:
                return event(said, self._target, is_error=self._status >= 400)
        told = f"the endpoint responded with status {self._status}, and no stream"
        return error_event(Refusal.upstream(told, code="upstream_failed"), self._target)


def head(response_lines: bytes, request_id: bytes, *, keep_alive: bool) -> bytes:
    """The head of a stream that begins before its response."""
    close = b"" if keep_alive else b"connection: close\r\n"
    return (
        b"HTTP/1.1 200 OK\r\n%bcontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
        b"x-request-id: %b\r\ntransfer-encoding: chunked\r\n%b\r\n" % (response_lines, request_id, close)
    )
