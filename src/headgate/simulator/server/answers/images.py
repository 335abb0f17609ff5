"""The image that a model for text and images may put behind its words: always the same small one."""

import base64
import struct
import zlib
from typing import Any

SIDE = 8
"""Pixels."""


def part() -> dict[str, Any]:
    """As a part of the content of a message."""
    return {"type": "image_url", "image_url": {"url": _URL}}


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def _png() -> bytes:
    """A grey square."""
    rows = (b"\0" + b"\x80" * SIDE) * SIDE
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


_URL = f"data:image/png;base64,{base64.b64encode(_png()).decode()}"
