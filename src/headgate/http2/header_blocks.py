"""Puts header blocks together that arrive as HEADERS and CONTINUATION frames, and decodes them."""

from __future__ import annotations

from headgate.http2 import errors, frames
from headgate.http2.hpack import HeaderDecoder, Headers


class HeaderBlocks:
    """The headers that the peer of one connection sends."""

    __slots__ = ("_decoder", "_flags", "_fragments", "_max_bytes", "_size", "stream_id")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._decoder = HeaderDecoder(max_bytes)
        self._fragments: list[bytes] = []
        self._size = 0
        self._flags = 0
        self.stream_id = 0
        """Of the incomplete block; 0 if there is none."""

    def begin(self, stream_id: int, flags: int, payload: bytes) -> tuple[Headers, bool] | None:
        """A HEADERS frame: the headers and whether they end the stream, or None if the block is incomplete.

        Raises Http2Error.
        """
        if flags & (frames.PADDED | frames.HAS_PRIORITY):
            payload = _fragment(flags, payload)
        self._flags = flags
        if flags & frames.END_HEADERS:
            self._check(len(payload))
            return self._decoder.decode(payload), flags & frames.END_STREAM != 0
        self.stream_id = stream_id
        self._add(payload)
        return None

    def go_on(self, stream_id: int, flags: int, payload: bytes) -> tuple[Headers, bool] | None:
        """A CONTINUATION frame, as `begin`."""
        if stream_id != self.stream_id or stream_id == 0:
            raise errors.Http2Error(errors.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._add(payload)
        if not flags & frames.END_HEADERS:
            return None
        block = b"".join(self._fragments)
        self._fragments, self._size, self.stream_id = [], 0, 0
        return self._decoder.decode(block), self._flags & frames.END_STREAM != 0

    def _add(self, payload: bytes) -> None:
        self._size += len(payload)
        self._check(self._size)
        self._fragments.append(payload)

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise errors.Http2Error(
                errors.ENHANCE_YOUR_CALM, f"the headers of a stream exceed {self._max_bytes} bytes"
            )


def _fragment(flags: int, payload: bytes) -> bytes:
    """The part of a HEADERS payload that belongs to the block (RFC 9113, 6.2)."""
    begin, end = 0, len(payload)
    if flags & frames.PADDED:
        if not payload:
            raise errors.Http2Error(errors.FRAME_SIZE_ERROR, "HEADERS without its padding")
        begin, end = 1, end - payload[0]
    if flags & frames.HAS_PRIORITY:
        begin += 5
    if begin > end:
        raise errors.Http2Error(errors.PROTOCOL_ERROR, "HEADERS that is shorter than its padding")
    return payload[begin:end]
