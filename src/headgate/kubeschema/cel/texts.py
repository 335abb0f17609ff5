"""What Kubernetes gives to CEL for text beyond the language itself: find, replace, join, charAt, ...

Positions count characters, and a position outside of the text is an error, as in cel-go's library of strings
and Kubernetes' library of regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headgate.kubeschema import regex

__all__ = ["FUNCTIONS"]

_LONGEST: Final = 1 << 20
"""Characters that a function may make; an expression could otherwise double its text with each call."""


def _bounded(length: int) -> None:
    if length > _LONGEST:
        raise ValueError(f"text of {length} characters is longer than an expression may make")


def _pattern(source: str) -> Any:
    return regex.compiled(source, regex.OF_SCHEMAS)


def _found(text: str, pattern: str) -> str:
    match = _pattern(pattern).search(text)
    return match.group(0) if match else ""


def _all_found(text: str, pattern: str, limit: int = -1) -> list[str]:
    """At most `limit` of them; a negative limit is none."""
    found: list[str] = []
    for match in _pattern(pattern).finditer(text):
        if len(found) == limit:
            break
        found.append(match.group(0))
    return found


def _replaced(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    count = min(count, limit) if limit >= 0 else count
    _bounded(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def _joined(items: Sequence[str], separator: str = "") -> str:
    _bounded(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise ValueError(f"index out of range: {position}")
    return text[position : position + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"index out of range: [{start}, {end})")
    return text[start:end]


def _first(items: Sequence[Any], wanted: Any, start: int = 0) -> int:
    """Where the text first contains the other, or the list the item; -1: nowhere."""
    if isinstance(items, str):
        return items.find(wanted, start)
    return items.index(wanted) if wanted in items else -1


def _last(items: Sequence[Any], wanted: Any) -> int:
    if isinstance(items, str):
        return items.rfind(wanted)
    return next((index for index in reversed(range(len(items))) if items[index] == wanted), -1)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        characters = list(text)
        kept = characters[: limit - 1] if limit > 0 else characters
        return [*kept, text[len(kept) :]] if len(kept) < len(characters) else characters
    return text.split(separator, limit - 1 if limit > 0 else -1)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "charAt": _char_at,
    "find": _found,
    "findAll": _all_found,
    "indexOf": _first,
    "join": _joined,
    "lastIndexOf": _last,
    "lowerAscii": lambda text: text.translate(_LOWER),
    "replace": _replaced,
    "split": _split,
    "substring": _substring,
    "trim": str.strip,
    "upperAscii": lambda text: text.translate(_UPPER),
}
"""By name; the receiver of a method is the first argument. What they raise is an error of the expression."""
