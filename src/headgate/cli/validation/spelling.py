"""Guess what a misspelled word stands for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from headgate.kubeschema import duration


def closest(word: str, words: Iterable[str]) -> str | None:
    """The most similar word, ignoring case."""
    folded = {each.lower(): each for each in words}
    found = difflib.get_close_matches(word.lower(), folded, 1, 0.6)
    return folded[found[0]] if found else None


# The plain number meant by a duration such as 30s, or by a size such as 32Mi.
_SIZE = re.compile(r"([0-9]{1,12}) ?([kKMGT])(i?)B?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def without_unit(text: str) -> int | float | None:
    """The seconds of a duration or the number of a size; None for anything else."""
    size = _SIZE.fullmatch(text)
    if size is not None:
        scale: int = (1024 if size[3] else 1000) ** _POWERS[size[2]]
        return int(size[1]) * scale
    try:
        seconds = duration.parse(duration.meant(text) or text)
    except duration.DurationError:
        return None
    return int(seconds) if seconds.is_integer() else seconds
