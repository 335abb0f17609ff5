"""HTTP/2 frames as bytes (RFC 9113, sections 4 and 6)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
MAX_FRAME_BYTES: Final = 16_384
"""Payload of a frame unless a larger one is negotiated, which this side never does."""
MAX_WINDOW: Final = 0x7FFFFFFF
DEFAULT_WINDOW: Final = 65_535

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 1
ACK: Final = 1
END_HEADERS: Final = 4
PADDED: Final = 8
HAS_PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

HEAD: Final = struct.Struct(">HBBBI")
"""Length (its two high bytes, then the low one), kind, flags, stream."""
_SETTING: Final = struct.Struct(">HI")
_NUMBER: Final = struct.Struct(">I")
_TWO_NUMBERS: Final = struct.Struct(">II")


def frame(kind: int, stream_id: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A whole frame."""
    size = len(payload)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def head(kind: int, stream_id: int, size: int, flags: int = 0) -> bytes:
    """The first 9 bytes of a frame with a payload of `size` bytes."""
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id)


def header_frames(stream_id: int, block: bytes, flags: int) -> bytes:
    """A header block as HEADERS and, if it is long, CONTINUATION frames."""
    if len(block) <= MAX_FRAME_BYTES:
        return frame(HEADERS, stream_id, block, flags | END_HEADERS)
    made = [frame(HEADERS, stream_id, block[:MAX_FRAME_BYTES], flags)]
    for at in range(MAX_FRAME_BYTES, len(block), MAX_FRAME_BYTES):
        end = at + MAX_FRAME_BYTES
        made.append(frame(CONTINUATION, stream_id, block[at:end], END_HEADERS if end >= len(block) else 0))
    return b"".join(made)


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, b"".join(_SETTING.pack(*each) for each in values))


def window_update(stream_id: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, stream_id, _NUMBER.pack(size))


def reset(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, stream_id, _NUMBER.pack(code))


def goaway(last_stream_id: int, code: int, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, _TWO_NUMBERS.pack(last_stream_id, code) + debug)


def ping(data: bytes, *, is_ack: bool = False) -> bytes:
    return frame(PING, 0, data, ACK if is_ack else 0)


SETTINGS_ACK: Final = frame(SETTINGS, 0, b"", ACK)
