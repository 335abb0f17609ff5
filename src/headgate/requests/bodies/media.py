"""Identifies images, audio and files inside a prompt, and estimates their tokens.

In a JSON body they are long base64 strings, and their length says little: 1 MB of an image is a few thousand
tokens, not 250,000. Each is replaced by its hash, repeated to the length of a text with the same number of
tokens. So positions in the prompt correspond to its tokens, and prompts with different images differ.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import re2
import xxhash

from headgate.fleet.prefix import hashing
from headgate.requests.bodies import image_sizes, image_tokens

TEXT_BYTES_PER_TOKEN: Final = 4
MIN_BYTES: Final = 4096
"""Shorter strings are left unchanged: as text, they count about as much as an image."""
SAMPLE_BYTES: Final = 256

PIXELS_PER_BYTE: Final = 4
"""Of compressed images whose size is not found."""
AUDIO_BYTES_PER_TOKEN: Final = 320
"""50 tokens per second, at 128 kbit/s."""
OTHER_TOKENS: Final = 2250
"""Videos and files: ten frames of 640 by 360 pixels."""
HEAD_CHARACTERS: Final = 32 * 1024
"""Of the base64 string, searched for the size of an image."""
_AUDIO: Final = (b"RIFF", b"ID3", b"OggS", b"fLaC", b"\xff\xfb", b"\xff\xf3")
_QUOTE: Final = b'"'[0]
_OF_TEXT: Final = (b" ", b".", b",")

MAX_LOOKED_AT: Final = 2000
"""Positions in a prompt where an image may begin. A prompt with more does not contain images."""
_SEED: Final = "media"


class Medium(NamedTuple):
    """One image, sound or file."""

    digest: bytes
    """Of its base64 string, secret as those of prompts are."""
    width: int
    height: int
    """Of an image, estimated if its file does not say them; 0 for anything else."""
    tokens: int
    """Of anything else; 0 for an image."""


Text = bytes | memoryview


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


def split(
    text: bytes | bytearray, most: int, start: int = 0, end: int | None = None
) -> tuple[list[Text], list[Medium], int]:
    """The texts before, between and after the base64 strings of a JSON text (data URLs, and values of members
    named `data`), these media, and the size of all texts, of which only the first `most` bytes are kept."""
    end = len(text) if end is None else end
    view = memoryview(text)
    texts: list[Text] = []
    media: list[Medium] = []
    size, done = 0, start
    for first, last in _segments(text, start, end):
        texts.append(view[done : min(first, done + max(most - size, 0))])
        size += first - done
        media.append(_medium(view[first:last]))
        done = last
    texts.append(view[done : min(end, done + max(most - size, 0))])
    return texts, media, size + end - done


def joined(texts: list[Text], media: list[Medium], model: str, most: int) -> tuple[bytes, int]:
    """The texts with a placeholder for each medium between them, as long as a text of so many tokens. Only
    the first `most` bytes of the result are built; the number is the length of all placeholders."""
    rule = image_tokens.rule_of(model)
    parts: list[Text] = [texts[0]]
    kept, size = len(texts[0]), 0
    for text, medium in zip(texts[1:], media, strict=True):
        count = medium.tokens or image_tokens.tokens(rule, medium.width, medium.height)
        length = count * TEXT_BYTES_PER_TOKEN
        size += length
        placeholder = _repeated(medium.digest, min(length, max(most - kept, 0)))
        kept += len(placeholder)
        parts += (placeholder, text[: max(most - kept, 0)])
        kept += len(parts[-1])
    return b"".join(parts), size


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
            elif _is_base64(text, first, last):
                yield first, last


def _is_base64(text: bytes | bytearray, first: int, last: int) -> bool:
    """Whether a string has nothing that texts have and base64 has not. A text that only begins like a file
    would count for a few tokens."""
    if any(text.find(each, first, last) >= 0 for each in _OF_TEXT):
        return False
    escape = text.find(b"\\", first, last)  # far quicker than a search for two bytes
    return (escape < 0 or text.find(b"\\u", escape, last) < 0) and text[first:last].isascii()


def _repeated(digest: bytes, length: int) -> bytes:
    return digest * (length // len(digest)) + digest[: length % len(digest)]


def _medium(data: memoryview) -> Medium:
    """What a base64 string is, by the header of its file."""
    digest = xxhash.xxh3_64_digest(data, hashing.seed(_SEED))
    length = len(data) * 3 // 4
    head = _decoded(bytes(data[:HEAD_CHARACTERS]).replace(b"\\/", b"/"))
    size = image_sizes.size_of(head)
    if size is None:
        is_audio = head.startswith(_AUDIO)
        return Medium(digest, 0, 0, length // AUDIO_BYTES_PER_TOKEN + 1 if is_audio else OTHER_TOKENS)
    width, height = size
    if not width or not height:
        width = height = max(math.isqrt(length * PIXELS_PER_BYTE), 1)
    return Medium(digest, width, height, 0)


def _decoded(data: bytes) -> bytes:
    try:
        return binascii.a2b_base64(data[: len(data) // 4 * 4])
    except binascii.Error:
        return b""
