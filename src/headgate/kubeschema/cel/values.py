"""Kubernetes' CEL functions for any value: optional selection, lists as sets, text formatting."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headgate.kubeschema import duration as go_duration
from headgate.kubeschema import regex
from headgate.kubeschema.cel import syntax
from headgate.kubeschema.cel.engine import cel

__all__ = ["TEXT_FUNCTIONS", "VALUE_FUNCTIONS"]

_LONGEST: Final = 1 << 20
_CLAUSE = re.compile(r"%(?:\.([0-9]{1,3}))?([a-zA-Z%])?")


def _select(value: Any, key: Any) -> Any:
    """An optional of the field or item; for an optional, of its value."""
    if isinstance(value, cel.OptionalValue):
        if not value.has_value():
            return value
        value = value.value()
    if isinstance(value, dict):
        return cel.OptionalValue.of(value[key]) if key in value else cel.OptionalValue.none()
    if not isinstance(value, list | tuple) or not isinstance(key, int):
        raise TypeError("no such overload")
    return cel.OptionalValue.of(value[key]) if 0 <= key < len(value) else cel.OptionalValue.none()


def _identity(value: Any) -> Any:
    """A key that is equal for exactly the values that CEL considers equal: 1 and 1.0, but not true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list | tuple):
        return ("list", tuple(map(_identity, value)))
    if isinstance(value, dict):
        return ("map", frozenset((_identity(key), _identity(inner)) for key, inner in value.items()))
    return value


def _set(items: Sequence[Any]) -> frozenset[Any]:
    if not isinstance(items, list | tuple):
        raise TypeError("no such overload")
    return frozenset(map(_identity, items))


def _formatted(pattern: str, values: Sequence[Any]) -> str:
    """`'%s has %d items'.format([self.name, self.items.size()])`; raises ValueError if the values do not
    fit."""
    left = list(values)
    text = _CLAUSE.sub(lambda match: _clause(match, left), pattern)
    if left:
        raise ValueError(f"there are {len(left)} more values than the format has places")
    if len(text) > _LONGEST:
        raise ValueError(f"text of {len(text)} characters is longer than an expression may make")
    return text


def _clause(match: re.Match[str], left: list[Any]) -> str:
    precision, verb = match.groups()
    if verb == "%":
        return "%"
    if verb not in _VERBS:
        raise ValueError(f"unrecognized formatting clause {match.group()!r}")
    if not left:
        raise ValueError("the format has more places than there are values")
    return _VERBS[verb](left.pop(0), 6 if precision is None else int(precision))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("an integer clause was given something else")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("a clause for numbers was given something else")
    return float(value)


def _binary(value: Any) -> str:
    return format(int(value) if isinstance(value, bool) else _whole(value), "b")


def _hexadecimal(value: Any) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    return format(_whole(value), "x")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(value, dict):
        entries = (f"{_quoted(key)}:{_quoted(value[key])}" for key in sorted(value, key=str))
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return msgspec.to_builtins(value) if isinstance(value, bytes) else _plain(value)


def _quoted(value: Any) -> str:
    """An item of a list or map, where cel-go quotes texts."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _text(value)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


_VERBS: Final[dict[str | None, Callable[[Any, int], str]]] = {
    "s": lambda value, _: _text(value),
    "d": lambda value, _: str(_whole(value)),
    "f": lambda value, precision: f"{_number(value):.{precision}f}",
    "e": lambda value, precision: f"{_number(value):.{precision}e}",
    "b": lambda value, _: _binary(value),
    "o": lambda value, _: format(_whole(value), "o"),
    "x": lambda value, _: _hexadecimal(value),
    "X": lambda value, _: _hexadecimal(value).upper(),
}


def _timedelta(text: str) -> datetime.timedelta:
    """A Go duration. Parts finer than microseconds are rounded away from zero, so that a duration just above
    a limit stays above it."""
    nanoseconds = go_duration.parse_ns(text)
    microseconds = -(-abs(nanoseconds) // 1000)
    return datetime.timedelta(microseconds=microseconds if nanoseconds >= 0 else -microseconds)


VALUE_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    syntax.DURATION: _timedelta,
    syntax.SELECT: _select,
    syntax.LENGTH: len,
    "format": _formatted,
    "sets_contains": lambda items, others: _set(others) <= _set(items),
    "sets_equivalent": lambda items, others: _set(items) == _set(others),
    "sets_intersects": lambda items, others: not _set(items).isdisjoint(_set(others)),
}
"""By name; a method's receiver is the first argument. Exceptions become errors of the expression."""


# Kubernetes' CEL functions for text: find, replace, join, charAt, ...
#
# Positions count characters, and a position outside of the text is an error, as in cel-go's strings library
# and Kubernetes' regular expression library.
def _bounded(length: int) -> None:
    if length > _LONGEST:
        raise ValueError(f"text of {length} characters is longer than an expression may make")


def _pattern(source: str) -> Any:
    return regex.compiled(source, regex.OF_SCHEMAS)


def _is_found(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _found(text: str, pattern: str) -> str:
    match = _pattern(pattern).search(text)
    return match.group(0) if match else ""


def _all_found(text: str, pattern: str, limit: int = -1) -> list[str]:
    """At most `limit` matches; a negative limit is unlimited."""
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
    """The first index of the substring or the item; -1 if there is none."""
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

TEXT_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "charAt": _char_at,
    "find": _found,
    "findAll": _all_found,
    "indexOf": _first,
    "join": _joined,
    "lastIndexOf": _last,
    syntax.MATCHES: _is_found,
    "lowerAscii": lambda text: text.translate(_LOWER),
    "replace": _replaced,
    "split": _split,
    "substring": _substring,
    "trim": str.strip,
    "upperAscii": lambda text: text.translate(_UPPER),
}
"""By name; a method's receiver is the first argument. Exceptions become errors of the expression."""
