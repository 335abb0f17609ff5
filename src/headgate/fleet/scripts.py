"""Weighs a text by script, because a token of one script has many more bytes than one of another.

Amounts are in bytes of English text that would make as many tokens in most current vocabularies. Plain ASCII
is found in one check; a long text is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LATIN: Final = "latin"
"""Includes ASCII: for pure ASCII, the amount is the length."""
SAMPLED_BYTES: Final = 16 * 1024
_PIECES: Final = 8
_LOOKED_AT: Final = 512
_ESCAPE: Final = b"\\u"

_WEIGHTS: Final[tuple[tuple[int, int, str, float], ...]] = (
    (0x00, 0x7F, LATIN, 1.0),
    (0x80, 0xBF, LATIN, 0.0),
    (0xC0, 0xCD, LATIN, 2.5),
    (0xCE, 0xCF, "greek", 2.6),
    (0xD0, 0xD3, "cyrillic", 1.4),
    (0xD4, 0xDF, "arabic", 1.8),
    (0xE0, 0xE0, "indic", 2.6),
    (0xE1, 0xE1, "further", 2.6),
    (0xE2, 0xE2, "symbols", 4.0),
    (0xE3, 0xE3, "han", 2.6),
    (0xE4, 0xE9, "han", 2.5),
    (0xEA, 0xED, "hangul", 3.0),
    (0xEE, 0xEF, "symbols", 3.0),
    (0xF0, 0xFF, "symbols", 5.2),
)
"""By first byte of a UTF-8 character (first, last): its script, and its weight, measured with the
vocabularies of Qwen and DeepSeek. The usage that engines report corrects it."""
_CLASS_OF: Final = bytes(
    place for place, (first, last, _, _) in enumerate(_WEIGHTS) for _ in range(first, last + 1)
)

Amounts = Mapping[str, float]
"""By script."""


def amounts(text: bytes | bytearray | memoryview, size: int) -> Amounts | None:
    """The amounts of a text as it stands in JSON, scaled to `size` bytes; None for plain ASCII."""
    sample = text if len(text) <= SAMPLED_BYTES and not isinstance(text, memoryview) else _sample(text)
    if sample.isascii():
        if not _has_escapes(sample):
            return None
        return _counted(_unescaped(sample), size / len(sample))
    return _counted(sample, size / len(sample))


def _has_escapes(sample: bytes | bytearray) -> bool:
    """Check the beginning, the middle and the end: a client that escapes does so everywhere."""
    if sample.find(b"\\") < 0:
        return False
    length, find = len(sample), sample.find
    if length <= 3 * _LOOKED_AT:
        return find(_ESCAPE) >= 0
    middle = length // 2
    return (
        find(_ESCAPE, length - _LOOKED_AT) >= 0
        or find(_ESCAPE, middle, middle + _LOOKED_AT) >= 0
        or find(_ESCAPE, 0, _LOOKED_AT) >= 0
    )


def _sample(text: bytes | bytearray | memoryview) -> bytes:
    if len(text) <= SAMPLED_BYTES:
        return bytes(text)
    length = SAMPLED_BYTES // _PIECES
    step = (len(text) - length) // (_PIECES - 1)
    return b"".join(bytes(text[at : at + length]) for at in range(0, _PIECES * step, step))


def _unescaped(sample: bytes | bytearray) -> bytes:
    """Replace `\\uXXXX` by the characters; two of these are one beyond the first 65,536."""
    told = sample.decode("raw_unicode_escape", "ignore")
    return told.encode("utf-16", "surrogatepass").decode("utf-16", "ignore").encode()


def _counted(sample: bytes | bytearray, scale: float) -> Amounts | None:
    classes = sample.translate(_CLASS_OF)
    found: dict[str, float] = {}
    for place, (_, _, script, weight) in enumerate(_WEIGHTS):
        count = classes.count(place) if weight else 0
        if count:
            found[script] = found.get(script, 0.0) + scale * weight * count
    return found or None
