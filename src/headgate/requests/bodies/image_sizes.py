"""Reads the width and height of an image from the beginning of its file."""

from __future__ import annotations

import struct
from typing import Final

Size = tuple[int, int]
"""Width and height in pixels."""
UNKNOWN: Final[Size] = (0, 0)
MAX_SEGMENTS: Final = 256
"""Before the frame header of a JPEG: a crafted image could have thousands of empty ones."""
_NO_FRAMES: Final = frozenset({0xC4, 0xC8, 0xCC})
"""Markers between those of frames: tables and extensions."""
_VP8_START: Final = b"\x9d\x01\x2a"
_VP8L_SIGNATURE: Final = 0x2F
_14_BITS: Final = 0x3FFF


def size_of(head: bytes) -> Size | None:
    """The size of a PNG, JPEG, GIF or WebP image, `UNKNOWN` if it is not within `head`; None for other
    files."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _unpacked(">II", head, 16)
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    if head.startswith(b"GIF8"):
        return _unpacked("<HH", head, 6)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp(head)
    return None


def _unpacked(form: str, head: bytes, at: int) -> Size:
    try:
        width, height = struct.unpack_from(form, head, at)
    except struct.error:
        return UNKNOWN
    return int(width), int(height)


def _jpeg(head: bytes) -> Size:
    """By the frame header (ITU-T T.81, B.2.2)."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        if at + 9 > len(head) or head[at] != 0xFF:
            break
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            height, width = _unpacked(">HH", head, at + 5)
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return UNKNOWN


def _webp(head: bytes) -> Size:
    """By the first chunk (RFC 9649): lossy, lossless, or with extensions."""
    kind = head[12:16]
    if kind == b"VP8 " and head[23:26] == _VP8_START:
        width, height = _unpacked("<HH", head, 26)
        return width & _14_BITS, height & _14_BITS
    if kind == b"VP8L" and len(head) >= 25 and head[20] == _VP8L_SIGNATURE:
        bits = int.from_bytes(head[21:25], "little")
        return (bits & _14_BITS) + 1, (bits >> 14 & _14_BITS) + 1
    if kind == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return UNKNOWN
