"""Where the body of a request ends: after its length, or after its last chunk.

Chunks are read strictly: what two servers could read differently is rejected. Trailers are dropped.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.gateway.incoming import FRAMING_FACTOR, MAX_FRAMING_BYTES

MAX_LINE_BYTES: Final = 4096
"""Of a chunk size with its extensions, and of a trailer."""
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\r\n\0]*)?")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*")

_AT_SIZE, _AT_END, _AT_TRAILER = 0, 1, 2


class FramingError(ValueError):
    """The body is not framed as HTTP says."""


class Body:
    """Reads one body: `feed` returns its payload, and `rest` has what follows once `is_complete`."""

    __slots__ = ("_framed_bytes", "_left", "_line", "_state", "is_chunked", "is_complete", "rest", "size")

    def __init__(self, length: int, *, is_chunked: bool) -> None:
        self.is_chunked = is_chunked
        self._left = 0 if is_chunked else length
        """Bytes that are left of the body, or of the chunk."""
        self._state = _AT_SIZE
        self._line = b""
        """The beginning of an incomplete line."""
        self._framed_bytes = 0
        self.size = 0
        """Bytes of payload so far."""
        self.rest = b""
        self.is_complete = not is_chunked and length == 0

    @property
    def counted_bytes(self) -> int:
        """Bytes that are left, if their number is known from the head; else 0."""
        return 0 if self.is_chunked else self._left

    def feed(self, data: bytes) -> bytes:
        """The payload in further data. Raises FramingError."""
        if not self.is_chunked:
            payload, self.rest = (data, b"") if len(data) <= self._left else self._split(data)
            self._left -= len(payload)
            self.size += len(payload)
            self.is_complete = not self._left
            return payload
        payload = self._unchunk(data)
        self.size += len(payload)
        self._framed_bytes += len(data) - len(self.rest)
        if self._framed_bytes - self.size > MAX_FRAMING_BYTES + FRAMING_FACTOR * self.size:
            raise FramingError("the chunk sizes and extensions are far longer than the body")
        return payload

    def _split(self, data: bytes) -> tuple[bytes, bytes]:
        return data[: self._left], data[self._left :]

    def _unchunk(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_complete:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            end = data.find(b"\n", at)
            line = data[at : end + 1] if end >= 0 else data[at:]
            at += len(line)
            self._line += line
            if len(self._line) > MAX_LINE_BYTES:
                raise FramingError(f"a line between chunks has more than {MAX_LINE_BYTES} bytes")
            if end >= 0:
                whole, self._line = self._line, b""
                self._take_line(whole)
        self.rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise FramingError("a line between chunks does not end with CR and LF")
        line = line[:-2]
        if self._state == _AT_END:
            if line:
                raise FramingError("a chunk is longer than its size")
            self._state = _AT_SIZE
        elif self._state == _AT_SIZE:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise FramingError(f"{line[:32]!r} is not the size of a chunk")
            self._left = int(size[1], 16)
            self._state = _AT_END if self._left else _AT_TRAILER
        elif not line:
            self.is_complete = True
        elif _TRAILER.fullmatch(line) is None:
            raise FramingError("a trailer is not a header")
