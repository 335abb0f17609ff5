"""Parses the responses of one connection to an endpoint.

A head is parsed once it is complete. Body bytes are parsed only to find the end of the response.
"""

from __future__ import annotations

from typing import Final, Protocol

import httptools

from headgate.requests.client import Header
from headgate.requests.responses import SWITCHING

_VERSIONS: Final = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_MINOR_VERSION: Final = len(b"HTTP/1.")
_ZERO: Final = 48
_MAX_HEADERS: Final = 256
"""Limit per response: each header is checked several times, and 64 KB of head could have 16,000."""
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_NO_PARSER: Final = httptools.HttpResponseParser(None)
"""Replaces the parser when a connection has ended. llhttp's parser refers to its owner, and the cycle would
keep both until the next garbage collection, which the gateway makes rare."""


class _Parser(Protocol):
    """The methods of llhttp's parser that are used."""

    def feed_data(self, data: bytes, /) -> None: ...
    def get_status_code(self) -> int: ...
    def should_keep_alive(self) -> bool: ...


class _Anything:
    """Accepts all bytes, after a switch of protocols."""

    def feed_data(self, data: bytes, /) -> None:
        pass

    def get_status_code(self) -> int:
        return SWITCHING

    def should_keep_alive(self) -> bool:
        return False


_ANYTHING: Final = _Anything()


class ResponseParser:
    """llhttp with its callbacks, and their state for the current response."""

    __slots__ = (
        "_chunk_is_over",
        "_head",
        "_headers",
        "_interim_bytes",
        "_is_amid_message",
        "_parser",
        "is_between_chunks",
        "is_complete",
        "keep_alive",
        "may_switch",
    )

    def __init__(self) -> None:
        self._parser: _Parser = httptools.HttpResponseParser(self)
        self._headers: list[Header] = []
        self._head: bytes | None = b""
        """The part of the head received so far; None once it is complete."""
        self._interim_bytes = 0
        """Bytes of interim responses, which count as part of the head: they could continue forever."""
        self._is_amid_message = False
        self._chunk_is_over = False
        """Whether the last event of llhttp was the end of a chunk."""
        self.is_between_chunks = False
        """Whether llhttp expects a chunk size next, so that a whole chunk can skip it."""
        self.is_complete = False
        self.keep_alive = False
        """Whether the connection may be reused; known once the response is complete."""
        self.may_switch = False
        """Whether the endpoint was asked for another protocol. After status 101, all bytes are body."""

    def begin(self) -> None:
        """Expect the response to a request."""
        self._head = b""
        self._interim_bytes = 0
        self._is_amid_message = self.is_complete = False
        self._chunk_is_over = self.is_between_chunks = self.may_switch = False

    def close(self) -> None:
        """Parse nothing more."""
        self._parser = _NO_PARSER

    @property
    def has_begun(self) -> bool:
        """Whether any byte of the response has arrived."""
        return self._head != b"" or self._interim_bytes > 0

    @property
    def awaits_head(self) -> bool:
        """Whether the head is incomplete."""
        return self._head is not None

    def take_head(self, data: bytes, max_bytes: int) -> tuple[int, list[Header], bytes] | None:
        """Parse the head once it is complete. Returns the status, the headers with lower-case names, and the
        data that follows; None if more is needed. Raises HttpParserError."""
        head = self._head + data if self._head else data
        while True:
            end = head.find(b"\r\n\r\n")
            size = end if end >= 0 else len(head)
            if self._interim_bytes + size > max_bytes:
                raise httptools.HttpParserError("the response head is too long")
            if end < 0:
                self._head = head
                return None
            if not head.startswith(_VERSIONS):
                raise httptools.HttpParserError("no status line of HTTP/1.1 or HTTP/1.0")
            is_http_1_0 = head[_MINOR_VERSION] == _ZERO
            self._headers = []
            try:
                self._parser.feed_data(head[: end + 4])
            except httptools.HttpParserUpgrade:
                if not self.may_switch:
                    raise
                return self._switch(head[end + 4 :])
            status: int = self._parser.get_status_code()
            head = head[end + 4 :]
            if not self._is_amid_message or status < 100:
                raise httptools.HttpParserError("no status line")
            if status >= 200:
                break
            self._interim_bytes += end + 4
            self._is_amid_message = self.is_complete = False  # an unsolicited interim response
        if len(self._headers) > _MAX_HEADERS:
            raise httptools.HttpParserError(f"the response has more than {_MAX_HEADERS} headers")
        if is_http_1_0 and any(name == b"transfer-encoding" for name, _ in self._headers):
            raise httptools.HttpParserError("it has a transfer-encoding, which HTTP/1.0 does not support")
        self._head = None
        return status, self._headers, head

    def _switch(self, rest: bytes) -> tuple[int, list[Header], bytes]:
        if len(self._headers) > _MAX_HEADERS:
            raise httptools.HttpParserError(f"the response has more than {_MAX_HEADERS} headers")
        self._head = None
        self._parser = _ANYTHING
        self.is_complete = self.keep_alive = False
        return SWITCHING, self._headers, rest

    def feed(self, data: bytes) -> None:
        """Parse bytes of the body. Raises HttpParserError or HttpParserUpgrade."""
        self._parser.feed_data(data)
        self.is_between_chunks = self._chunk_is_over and data.endswith(b"\r\n")

    # -- llhttp callbacks

    def on_message_begin(self) -> None:
        if self._is_amid_message:
            raise httptools.HttpParserError("a second response")
        self._is_amid_message = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if self._head is not None:
            self._headers.append((name, value))
        elif name in _FRAMING:
            raise httptools.HttpParserError("content-length or transfer-encoding in a trailer")

    def on_chunk_header(self) -> None:
        self._chunk_is_over = False

    def on_chunk_complete(self) -> None:
        self._chunk_is_over = True

    def on_message_complete(self) -> None:
        self.is_complete = True
        self.keep_alive = self._parser.should_keep_alive()  # llhttp forgets it after this callback


def reason(error: Exception) -> str:
    """Why a response is not valid HTTP."""
    if isinstance(error, httptools.HttpParserUpgrade):
        return "a protocol switch that was not requested"
    return str(error.__context__ or error)
