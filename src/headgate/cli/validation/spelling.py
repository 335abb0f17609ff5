"""What a misspelt word was most likely meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, words: Iterable[str]) -> str | None:
    """The word that was most likely meant, whatever its case."""
    folded = {each.lower(): each for each in words}
    found = difflib.get_close_matches(word.lower(), folded, 1, 0.6)
    return folded[found[0]] if found else None
