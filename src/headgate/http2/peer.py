"""What the other side of a connection has announced: its settings, and that it leaves."""

from __future__ import annotations

import struct
from typing import Final

from headgate.http2 import errors, frames
from headgate.http2.errors import Http2Error

_SETTING = struct.Struct(">HI")
_UNLIMITED: Final = 1 << 30


class Peer:
    """The other side of one connection."""

    __slots__ = ("has_preface", "is_greeted", "is_leaving", "max_calls")

    def __init__(self, *, is_server: bool) -> None:
        self.has_preface = is_server
        """Whether a client's preface has arrived."""
        self.is_greeted = False
        """Whether its first settings have arrived."""
        self.is_leaving = False
        """Whether it accepts no further streams."""
        self.max_calls = _UNLIMITED

    def settings(self, number: int, flags: int, payload: bytes) -> int | None:
        """Take a SETTINGS frame (RFC 9113, 6.5). Returns the window of streams, if it is among them.

        Raises Http2Error. The sizes of its table and of its frames are of no interest: this side uses no
        table, and frames of the size that all accept.
        """
        if number or len(payload) % _SETTING.size or (flags & frames.ACK and payload):
            raise Http2Error(errors.FRAME_SIZE_ERROR, "SETTINGS with a wrong length or stream")
        if flags & frames.ACK:
            if not self.is_greeted:
                raise Http2Error(errors.PROTOCOL_ERROR, "the first frame acknowledges settings")
            return None
        window = None
        for name, value in _SETTING.iter_unpack(payload):
            if name == frames.INITIAL_WINDOW_SIZE:
                if value > frames.MAX_WINDOW:
                    raise Http2Error(errors.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE is {value}")
                window = value
            elif name == frames.MAX_CONCURRENT_STREAMS:
                self.max_calls = value
            elif name == frames.ENABLE_PUSH and value > 1:
                raise Http2Error(errors.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")
            elif name == frames.MAX_FRAME_SIZE and not frames.MAX_FRAME_BYTES <= value < 1 << 24:
                raise Http2Error(errors.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {value}")
        self.is_greeted = True
        return window
