"""Chunk framing (RFC 9112, 7.1) of a response: removed if its payload is changed, and always bounded."""

from __future__ import annotations

from typing import Final

import httptools

LAST_CHUNK: Final = b"0\r\n\r\n"
MAX_LINE_BYTES: Final = 4096
"""Of a chunk size with its extensions, which are ignored."""
MAX_TRAILER_BYTES: Final = 16 * 1024
"""Of all trailers together."""


_DIGITS: Final = 8
"""Digits of a chunk size that `payload_at` recognizes."""
_LF, _CR = 10, 13


def payload_at(data: bytes) -> int:
    """The position of the payload if `data` is exactly one chunk, not the last, and without extensions; else
    0.

    Engines mostly send one chunk in one piece. Recognizing it takes a tenth of the time of parsing it.
    """
    length, size, at = len(data), 0, 0
    while at < _DIGITS and at < length:
        byte = data[at]
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            break
        size = size * 16 + digit
        at += 1
    if not size or at + 4 + size != length:
        return 0
    ends = data[at] == _CR and data[at + 1] == _LF and data[length - 2] == _CR and data[length - 1] == _LF
    return at + 2 if ends else 0


class Chunks:
    """Removes chunk framing. Except for its length, the framing must have been checked before: by llhttp,
    which has no bounds, or by `payload_at`."""

    __slots__ = ("_line", "_remaining", "_trailer_bytes")

    def __init__(self) -> None:
        self._line = b""
        """The beginning of an incomplete line between chunks."""
        self._remaining = 0
        """Bytes left in the chunk, including its line end; -1 after the last chunk."""
        self._trailer_bytes = 0

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a chunk."""
        return not (self._remaining or self._line)

    @property
    def is_ended(self) -> bool:
        return self._remaining < 0

    def follow(self, data: bytes) -> bytes:
        """Follow the framing, and return the data unchanged. Raises HttpParserError as `feed` does."""
        if len(data) <= self._remaining:
            self._remaining -= len(data)
        elif self._remaining or self._line or not payload_at(data):
            self.feed(data)
        return data

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """The payload of the chunks, and the bytes from the last chunk on, unchanged.

        Raises HttpParserError if the framing is too long.
        """
        payload: list[bytes] = []
        data = self._line + data
        self._line = b""
        at = 0
        while at < len(data):
            if self._remaining < 0:
                return b"".join(payload), self._trailers(data[at:])
            if self._remaining:
                piece = data[at : at + self._remaining]
                at += len(piece)
                self._remaining -= len(piece)
                # The last two bytes of the remainder are the line end of the chunk.
                payload.append(piece[: max(0, len(piece) - max(0, 2 - self._remaining))])
                continue
            end = data.find(b"\r\n", at, at + MAX_LINE_BYTES)
            if end < 0:
                self._line = data[at:]
                if len(self._line) >= MAX_LINE_BYTES:
                    raise httptools.HttpParserError(
                        f"the size of a chunk with its extensions has more than {MAX_LINE_BYTES} bytes"
                    )
                break
            size = int(data[at:end].partition(b";")[0], 16)
            if size == 0:
                self._remaining = -1
                continue
            self._remaining = size + 2
            at = end + 2
        return b"".join(payload), b""

    def _trailers(self, data: bytes) -> bytes:
        self._trailer_bytes += len(data)
        if self._trailer_bytes > MAX_TRAILER_BYTES:
            raise httptools.HttpParserError(f"its trailers have more than {MAX_TRAILER_BYTES} bytes")
        return data


def chunk(payload: bytes) -> bytes:
    """The payload as one chunk; empty for an empty payload, since an empty chunk is the last."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""
