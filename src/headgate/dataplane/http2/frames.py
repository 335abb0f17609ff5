"""Checks frames before h2 reads them: handles GOAWAY, and rejects frames that are too long or too many.

h2 treats a GOAWAY frame as the end of the connection and rejects everything after it, although a server that
shuts down finishes the streams that it accepted (RFC 9113, 6.8): a rolling update must not cut off responses.
h2 checks the length of a frame only when it has the whole frame, which may be 16 MB. And h2 takes 10 to 60 us
per frame, while one read may contain 29,000 empty frames.
"""

from __future__ import annotations

import struct

from headgate.dataplane.http2.errors import Http2Error

MAX_FRAME_BYTES = 16_384
"""Of one frame's payload, unless a larger one is negotiated (RFC 9113, 4.2), which never happens."""
TURN_FRAMES = 32
"""Frames read in one iteration of the event loop."""
BURST_FRAMES = 250
"""Frames other than body data that an endpoint may send at once on a connection."""
FRAMES_PER_S = 100.0
"""Rate at which that allowance is refilled."""
FRAMES_PER_REQUEST = 32
"""Refill of the allowance for each request sent."""
MAX_SETTINGS = 100
"""SETTINGS frames of one connection."""
FRAME_SHARE_BYTES = 256
"""A longer frame counts once more for each multiple of this. And each multiple of body data sent allows the
endpoint one more frame, as it has to open its window."""
_HEADER_BYTES = 9
_DATA, _SETTINGS, _GOAWAY = 0, 4, 7
_ACK, _PADDED = 1, 8
_MAX_PADDING = 256
_MIN_GOAWAY_BYTES = 8
_LAST_STREAM_MASK = 0x7FFFFFFF


class FrameFilter:
    """Tracks frame boundaries, however the bytes are split, and removes each GOAWAY."""

    __slots__ = (
        "_allowed",
        "_allowed_at",
        "_begun",
        "_is_heard",
        "_left",
        "_settings",
        "last_stream_id",
        "rest",
    )

    def __init__(self, now: float = 0.0) -> None:
        self._is_heard = False
        self._begun = b""
        """The beginning of a frame with an incomplete header, or of a GOAWAY."""
        self._left = 0
        """Bytes left in the frame that is being forwarded."""
        self.last_stream_id: int | None = None
        """From the last GOAWAY: streams with a greater number were not processed. None until one arrived."""
        self.rest = b""
        """Data not examined yet, as there was enough for one iteration of the event loop."""
        self._allowed = float(BURST_FRAMES)
        self._allowed_at = now
        self._settings = 0

    def feed(self, data: bytes, now: float = 0.0) -> bytes:
        """The same bytes without GOAWAY frames, incomplete parts, and `rest`.

        Raises Http2Error.
        """
        if not self._is_heard:
            self._is_heard = True
            if data.startswith(b"HTTP/1"):
                raise Http2Error("the endpoint speaks HTTP/1.1, but its pool is set to HTTP/2")
        if self._begun:
            data, self._begun = self._begun + data, b""
        self.rest = b""
        kept: list[bytes] = []
        at, kept_from = self._left, 0
        read = cost = 0
        while at < len(data):
            if at + _HEADER_BYTES > len(data):
                self._begun = data[at:]
                break
            if read >= TURN_FRAMES:
                self.rest = data[at:]
                break
            length = int.from_bytes(data[at : at + 3], "big")
            if length > MAX_FRAME_BYTES:
                raise Http2Error(f"the endpoint's response is not valid HTTP/2: a frame of {length} bytes")
            kind, flags = data[at + 3], data[at + 4]
            end = at + _HEADER_BYTES + length
            if kind == _DATA and length > (_MAX_PADDING if flags & _PADDED else 0):
                read += 1
                cost -= 1
            else:
                read += 1 + length // FRAME_SHARE_BYTES
                cost += 1 + length // FRAME_SHARE_BYTES
            if kind == _GOAWAY:
                if end > len(data):
                    self._begun = data[at:]
                    break
                self._note(data, at + _HEADER_BYTES, length)
                kept.append(data[kept_from:at])
                kept_from = end
            elif kind == _SETTINGS and not flags & _ACK:
                self._settings += 1
                if self._settings > MAX_SETTINGS:
                    raise Http2Error(f"the endpoint changes its settings more than {MAX_SETTINGS} times")
            at = end
        self._left = max(at - len(data), 0)
        if cost > 0:
            self._spend(cost, now)
        whole = len(data) - len(self._begun) - len(self.rest)
        if not kept:  # the usual case: nothing to join
            return data[:whole]
        return b"".join((*kept, data[kept_from:whole]))

    @property
    def is_leaving(self) -> bool:
        """Whether the endpoint has announced that it accepts no further requests."""
        return self.last_stream_id is not None

    def request_sent(self) -> None:
        """The head of another request was sent to the endpoint."""
        self._allowed = min(self._allowed + FRAMES_PER_REQUEST, float(BURST_FRAMES))

    def body_sent(self, size: int) -> None:
        """This much of a body was sent to the endpoint."""
        self._allowed += size // FRAME_SHARE_BYTES

    def _spend(self, cost: int, now: float) -> None:
        if self._allowed < BURST_FRAMES:
            came = (now - self._allowed_at) * FRAMES_PER_S
            self._allowed = min(self._allowed + came, float(BURST_FRAMES))
        self._allowed_at = now
        self._allowed -= cost
        if self._allowed < 0:
            raise Http2Error("the endpoint sends too many frames that are not part of a response body")

    def _note(self, data: bytes, at: int, length: int) -> None:
        if length < _MIN_GOAWAY_BYTES:
            raise Http2Error(f"the endpoint's response is not valid HTTP/2: GOAWAY has {length} bytes")
        (last,) = struct.unpack_from(">I", data, at)
        self.last_stream_id = last & _LAST_STREAM_MASK
