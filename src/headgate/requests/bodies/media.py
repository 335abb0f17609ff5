"""Identifies images, audio and files inside a prompt, and estimates their tokens.

In a JSON body they are long base64 strings, and their length says little: 1 MB of an image is a few thousand
tokens, not 250,000. Each is replaced by its hash, repeated to the length of a text with the same number of
tokens. So positions in the prompt correspond to its tokens, and prompts with different images differ.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterator
from typing import Final

import re2
import xxhash

TEXT_BYTES_PER_TOKEN: Final = 4
MIN_BYTES: Final = 4096
"""Shorter strings are left unchanged: as text, they count about as much as an image."""
SAMPLE_BYTES: Final = 256

PIXELS_PER_TOKEN: Final = 1024
"""For vision models that take images at their own size: a token is a square of 28 to 32 pixels."""
FEWEST_IMAGE_TOKENS, MAX_IMAGE_TOKENS = 64, 16_384
PIXELS_PER_BYTE: Final = 4
"""Of compressed images whose size is not found."""
AUDIO_BYTES_PER_TOKEN: Final = 320
"""50 tokens per second, at 128 kbit/s."""
OTHER_TOKENS: Final = 2250
"""Videos and files: ten frames of 640 by 360 pixels."""
HEAD_CHARACTERS: Final = 32 * 1024
"""Of the base64 string, searched for the size of an image."""
_QUOTE: Final = b'"'[0]
MAX_SEGMENTS: Final = 256
"""Before the frame header of a JPEG: a crafted image could have thousands of empty ones."""

MAX_LOOKED_AT: Final = 2000
"""Positions in a prompt where an image may begin. A prompt with more does not contain images."""


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return options


_BEGIN: Final = re2.compile(rb';base64,|"data"[ \t\r\n]*:[ \t\r\n]*"', _options())
"""RE2 takes the same time per byte of any text, and lets other threads run meanwhile."""


def is_likely(text: bytes | bytearray, start: int = 0, end: int | None = None) -> bool:
    """Whether a JSON text may contain a long base64 string, that is, has a stretch without spaces and quotes.

    Looks at a sixteenth of the text, since searching all of it would cost more than hashing it.
    """
    for at in range(start + MIN_BYTES // 2, len(text) if end is None else end, MIN_BYTES):
        last = at + SAMPLE_BYTES
        if text.find(b" ", at, last) < 0 and text.find(b'"', at, last) < 0:
            return True
    return False


def replaced(text: bytes | bytearray, most: int, start: int = 0, end: int | None = None) -> tuple[bytes, int]:
    """The text with a placeholder for each base64 string: data URLs, and values of members named `data`.

    Only the first `most` bytes of the result are built; the number is its full length.
    """
    end = len(text) if end is None else end
    view = memoryview(text)
    kept: list[bytes | memoryview] = []
    size, done = 0, start
    for first, last in _segments(text, start, end):
        kept.append(view[done : min(first, done + max(most - size, 0))])
        size += first - done
        length = tokens(view[first:last]) * TEXT_BYTES_PER_TOKEN
        kept.append(_stand_in(view[first:last], min(length, max(most - size, 0))))
        size += length
        done = last
    kept.append(view[done : min(end, done + max(most - size, 0))])
    return b"".join(kept), size + end - done


def _segments(text: bytes | bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    for _ in range(MAX_LOOKED_AT):
        found = _BEGIN.search(text, at, end)
        if found is None:
            return
        first = found.end()
        last = text.find(b'"', first, end)
        if last < 0:
            return
        at = last
        if last - first >= MIN_BYTES:
            sample = text[first : first + SAMPLE_BYTES]
            if text[found.start()] == _QUOTE and b";base64," in sample:
                at = first  # a data URL, which declares its type
            elif b" " not in sample:
                yield first, last


def _stand_in(data: memoryview, length: int) -> bytes:
    digest = xxhash.xxh3_64_digest(data) if length else b""
    return digest * (length // 8) + digest[: length % 8]


def tokens(data: bytes | memoryview) -> int:
    """Estimate the tokens of a base64 string from its file header."""
    length = len(data) * 3 // 4
    head = _decoded(bytes(data[:HEAD_CHARACTERS]).replace(b"\\/", b"/"))
    if (
        head.startswith((b"RIFF", b"ID3", b"OggS", b"fLaC", b"\xff\xfb", b"\xff\xf3"))
        and head[8:12] != b"WEBP"
    ):
        return length // AUDIO_BYTES_PER_TOKEN + 1
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        pixels = _area(head, 16, ">II")
    elif head.startswith(b"\xff\xd8"):
        pixels = _jpeg_pixels(head) or length * PIXELS_PER_BYTE
    elif head.startswith(b"GIF8"):
        pixels = _area(head, 6, "<HH")
    elif head[8:12] == b"WEBP":
        pixels = length * PIXELS_PER_BYTE
    else:
        return OTHER_TOKENS
    return min(max(pixels // PIXELS_PER_TOKEN, FEWEST_IMAGE_TOKENS), MAX_IMAGE_TOKENS)


def _decoded(data: bytes) -> bytes:
    try:
        return binascii.a2b_base64(data[: len(data) // 4 * 4])
    except binascii.Error:
        return b""


def _area(head: bytes, at: int, form: str) -> int:
    try:
        width, height = struct.unpack_from(form, head, at)
    except struct.error:
        return 0
    return int(width * height)


def _jpeg_pixels(head: bytes) -> int:
    """Pixels according to the frame header (ITU-T T.81, B.2.2); 0 if it is not within the head."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        if at + 9 > len(head) or head[at] != 0xFF:
            break
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _area(head, at + 5, ">HH")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0
