"""What has to be seen of frames before h2 reads them: those that leave, are too long, or are too many.

h2 takes a GOAWAY frame for the end of the connection and refuses whatever follows, though a server that
leaves goes on with the streams that it took (RFC 9113, 6.8): a rolling update must not cut answers off. It
judges the length of a frame when it has all of it, which may be 16 MB. And it takes 10 to 60 us for a frame,
of which one read may bring 29,000 that carry nothing.
"""

from __future__ import annotations

import struct

from headgate.gateway.http2.errors import Http2Error

MAX_FRAME_BYTES = 16_384
"""Of one frame's payload, unless a larger one is agreed on (RFC 9113, 4.2): it never is."""
TURN_FRAMES = 32
"""So many frames are read in one turn of the event loop."""
BURST_FRAMES = 250
"""Frames besides those of bodies that an endpoint may send at once on a connection."""
FRAMES_PER_S = 100.0
"""Those that it may send again after that."""
FRAMES_PER_REQUEST = 32
"""Those that it may send again for each request that it gets."""
MAX_SETTINGS = 100
"""SETTINGS frames of one connection."""
FRAME_SHARE_BYTES = 256
"""A longer frame counts once more for each of them. And so much of a body that is sent lets the endpoint send
one more frame: it has to open its window."""
_HEADER_BYTES = 9
_DATA, _SETTINGS, _GOAWAY = 0, 4, 7
_ACK, _PADDED = 1, 8
_MAX_PADDING = 256
_MIN_GOAWAY_BYTES = 8
_LAST_STREAM_MASK = 0x7FFFFFFF


class FrameFilter:
    """Follows where frames begin, however the bytes are cut, and takes each GOAWAY out."""

    __slots__ = ("_allowed", "_allowed_at", "_begun", "_left", "_settings", "last_stream_id", "rest")

    def __init__(self, now: float = 0.0) -> None:
        self._begun = b""
        """Of a frame whose header is not complete, or of a GOAWAY."""
        self._left = 0
        """Bytes until the frame ends that is passed on now."""
        self.last_stream_id: int | None = None
        """Of the last GOAWAY: what has a greater number was not looked at. None until one came."""
        self.rest = b""
        """What was not looked at, as there is enough for one turn of the event loop."""
        self._allowed = float(BURST_FRAMES)
        self._allowed_at = now
        self._settings = 0

    def feed(self, data: bytes, now: float = 0.0) -> bytes:
        """The same bytes without such frames, without what is yet to be completed, and without `rest`.

        Raises Http2Error.
        """
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
                raise Http2Error(f"the endpoint's answer is no valid HTTP/2: a frame of {length} bytes")
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
        if not kept:  # as mostly: then nothing need be put together
            return data[:whole]
        return b"".join((*kept, data[kept_from:whole]))

    def request_sent(self) -> None:
        """The endpoint got another request, without its body."""
        self._allowed = min(self._allowed + FRAMES_PER_REQUEST, float(BURST_FRAMES))

    def body_sent(self, size: int) -> None:
        """So much of a body went to the endpoint."""
        self._allowed += size // FRAME_SHARE_BYTES

    def _spend(self, cost: int, now: float) -> None:
        if self._allowed < BURST_FRAMES:
            came = (now - self._allowed_at) * FRAMES_PER_S
            self._allowed = min(self._allowed + came, float(BURST_FRAMES))
        self._allowed_at = now
        self._allowed -= cost
        if self._allowed < 0:
            raise Http2Error("the endpoint sends too many frames that are no part of an answer's body")

    def _note(self, data: bytes, at: int, length: int) -> None:
        if length < _MIN_GOAWAY_BYTES:
            raise Http2Error(f"the endpoint's answer is no valid HTTP/2: GOAWAY has {length} bytes")
        (last,) = struct.unpack_from(">I", data, at)
        self.last_stream_id = last & _LAST_STREAM_MASK
