"""Names with `*` for any text, compared in linear time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_ANY: Final = "*"


class Names:
    """Names and patterns."""

    __slots__ = ("_exact", "_patterns")

    def __init__(self, texts: Iterable[str]) -> None:
        texts = tuple(texts)
        self._exact = frozenset(text for text in texts if _ANY not in text)
        self._patterns = tuple(text.split(_ANY) for text in texts if _ANY in text)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name in self._exact or any(_matches(parts, name) for parts in self._patterns)

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)


def _matches(parts: list[str], name: str) -> bool:
    """Whether `name` has these parts, in order and without overlap, with any text between them."""
    first, last = parts[0], parts[-1]
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in parts[1:-1]:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
