"""What has to be seen of frames before h2 reads them: those that leave, and those that are too long.

h2 takes a GOAWAY frame for the end of the connection and refuses whatever follows, though a server that
leaves goes on with the streams that it took (RFC 9113, 6.8): a rolling update must not cut answers off. And
it judges the length of a frame when it has all of it, which may be 16 MB.
"""

from __future__ import annotations

import struct

from headgate.gateway.http2.errors import Http2Error

MAX_FRAME_BYTES = 16_384
"""Of one frame's payload, unless a larger one is agreed on (RFC 9113, 4.2): it never is."""
_HEADER_BYTES = 9
_GOAWAY = 7
_LEAST_GOAWAY_BYTES = 8
_LAST_STREAM_MASK = 0x7FFFFFFF


class FrameFilter:
    """Follows where frames begin, however the bytes are cut, and takes each GOAWAY out."""

    __slots__ = ("_begun", "_left", "last_stream_id")

    def __init__(self) -> None:
        self._begun = b""
        """Of a frame whose header is not complete, or of a GOAWAY."""
        self._left = 0
        """Bytes until the frame ends that is passed on now."""
        self.last_stream_id: int | None = None
        """Of the last GOAWAY: what has a greater number was not looked at. None until one came."""

    def feed(self, data: bytes) -> bytes:
        """The same bytes without such frames, and without what is yet to be completed. Raises Http2Error."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        kept: list[bytes] = []
        at, kept_from = self._left, 0
        while at < len(data):
            if at + _HEADER_BYTES > len(data):
                self._begun = data[at:]
                break
            length = int.from_bytes(data[at : at + 3], "big")
            if length > MAX_FRAME_BYTES:
                raise Http2Error(f"the endpoint's answer is no valid HTTP/2: a frame of {length} bytes")
            end = at + _HEADER_BYTES + length
            if data[at + 3] == _GOAWAY:
                if end > len(data):
                    self._begun = data[at:]
                    break
                self._note(data, at + _HEADER_BYTES, length)
                kept.append(data[kept_from:at])
                kept_from = end
            at = end
        self._left = max(at - len(data), 0)
        whole = len(data) - len(self._begun)
        if not kept:  # as mostly: then nothing need be put together
            return data[:whole]
        return b"".join((*kept, data[kept_from:whole]))

    def _note(self, data: bytes, at: int, length: int) -> None:
        if length < _LEAST_GOAWAY_BYTES:
            raise Http2Error(f"the endpoint's answer is no valid HTTP/2: GOAWAY has {length} bytes")
        (last,) = struct.unpack_from(">I", data, at)
        self.last_stream_id = last & _LAST_STREAM_MASK
