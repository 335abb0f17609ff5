"""Finds the top-level members of a large JSON body in one pass, decoding only what is needed.

The pass uses RE2 automata. They take the same time per byte for any body, and run without Python's global
lock, so in a thread they do not block the event loop.

Kinds of brackets are not distinguished, and commas inside nested values are not checked: such a body is
forwarded, and the engine rejects it. For every body that a JSON parser accepts, the members found are those
that the parser finds.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec
import re2

MAX_DEPTH: Final = 200
"""Levels of nested lists and objects. The parsers of engines accept 200 (pydantic) to 1,000 (Python's
own)."""
MAX_STOPS: Final = 256
"""Limit for members to examine: those with a requested name, and those whose name has escapes."""
_LONGEST_NAME_BYTES: Final = 256
"""No requested name is longer, even with an escape for each character."""
_MEMORY_BYTES: Final = 64 << 20

_WS: Final = rb"[ \t\r\n]*"
_HEX: Final = rb"[0-9a-fA-F]"
_PAIR: Final = rb"u[dD][89abAB]" + _HEX * 2 + rb"\\u[dD][c-fC-F]" + _HEX * 2
_UNIT: Final = rb"u(?:[0-9a-ce-fA-CE-F]" + _HEX * 3 + rb"|[dD][0-7]" + _HEX * 2 + rb")"
_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|' + _UNIT + rb"|" + _PAIR + rb")"
_PLAIN: Final = rb'[^"\\\x00-\x1f]'
_STRING: Final = rb'"(?:' + _PLAIN + rb"|" + _ESCAPE + rb')*"'
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_INSIDE: Final = rb"[-+.0-9a-zA-Z:, \t\r\n]"
"""What may occur between the strings and brackets of nested values."""


class ScanError(ValueError):
    """The body is not a JSON object that can be scanned; the message says where and why."""


class Member:
    """The position of one requested top-level member, and of its value."""

    __slots__ = ("behind", "end", "name", "start", "value")

    def __init__(self, name: str, start: int, value: int, end: int, behind: int) -> None:
        self.name = name
        self.start = start
        """Of its name, including the opening quote."""
        self.value = value
        self.end = end
        self.behind = behind
        """After the comma that follows; the end of the body for its last member."""


class Scanner:
    """Finds the members with certain names. Built once for a set of names; may be used by any thread."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        other = rb'"' + _other_than(tuple(sorted(name.encode() for name in names)))
        member = _WS + other + _WS + rb":" + _WS + _value() + _WS
        self._others = _compiled(rb"(?:" + member + rb"(?:,|\}" + _WS + rb"\z))*")

    def members(self, body: bytes | bytearray) -> list[Member]:
        """The requested members in their order, with all repetitions. Raises ScanError."""
        found: list[Member] = []
        at, size = _end(_BEGIN, body, 0), len(body)
        if not at:
            raise ScanError("it does not begin with an object")
        if _end(_EMPTY, body, at) == size:
            return found
        for _ in range(MAX_STOPS):
            at = _end(self._others, body, at)
            if at == size and body[-1:] != b",":
                return found
            start = _end(_SPACE, body, at)
            key_end = _end(_KEY, body, start)
            value = _end(_COLON, body, key_end)
            if key_end in (start, value):
                why = f"a member name in quotes and a colon are expected at byte {start}"
                raise _unreadable(body, start, why)
            value_end = _end(VALUE, body, value)
            if value_end == value:
                why = _why_no_value(body, value)
                raise _unreadable(body, start, f"the value of the member at byte {start} is {why}")
            at = _end(_DELIMITER, body, value_end)
            if at == value_end:
                raise ScanError(
                    f"the value of the member at byte {start} is not followed by a comma or brace"
                )
            name = _decoded(body, start, key_end)
            if name in self.names:
                found.append(Member(name, start, value, value_end, at))
            if at == size and body[-1:] != b",":
                return found
        raise ScanError(
            f"more than {MAX_STOPS} of its members repeat a name that the gateway reads, or escape their name"
        )


def first_item(body: bytes | bytearray, start: int) -> tuple[int, int]:
    """Start and end of the first item of the list at `start`; equal if the list is empty."""
    at = _end(_SPACE, body, start + 1)
    return at, _end(VALUE, body, at)


def count_items(body: bytes | bytearray, start: int, most: int) -> int:
    """Count the items of the list at `start`, up to `most`."""
    count, (at, end) = 0, first_item(body, start)
    while end > at and count < most:
        count += 1
        at = _end(_SPACE, body, end)
        if body[at : at + 1] != b",":
            break
        at = _end(_SPACE, body, at + 1)
        end = _end(VALUE, body, at)
    return count


def lone_surrogate(text: bytes | bytearray, start: int = 0) -> str:
    """The first half of a surrogate pair in a JSON text, as escaped there; "" if there is none."""
    at = _end(_NO_LONE, text, start)
    found = _SURROGATE.match(text, at)
    return bytes(found[0]).decode() if found is not None else ""


def _other_than(words: tuple[bytes, ...]) -> bytes:
    """An expression for the rest of a string without escapes, including its quote, that is none of these
    words."""
    branches = [] if b"" in words else [rb'"']
    followed: dict[bytes, list[bytes]] = {}
    for word in words:
        if word:
            followed.setdefault(word[:1], []).append(word[1:])
    branches.append(rb'[^"\\\x00-\x1f' + b"".join(followed) + rb"]" + _PLAIN + rb'*"')
    branches += [first + _other_than(tuple(rest)) for first, rest in followed.items()]
    return rb"(?:" + b"|".join(branches) + rb")"


@functools.cache
def _value() -> bytes:
    inside = _INSIDE + rb"|" + _STRING
    nested = rb"[\[{](?:" + inside + rb")*[\]}]"
    for _ in range(MAX_DEPTH - 1):
        nested = rb"[\[{](?:" + inside + rb"|" + nested + rb")*[\]}]"
    return rb"(?:" + _STRING + rb"|" + nested + rb"|" + _NUMBER + rb"|true|false|null)"


def _compiled(expression: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.max_mem = _MEMORY_BYTES
    return re2.compile(expression, options)


VALUE: Final = _compiled(_value())
_DEEP: Final = _compiled(rb"(?:(?:" + _INSIDE + rb"|" + _STRING + rb")*[\[{]){%d}" % (MAX_DEPTH + 1))
"""A value that opens one level more than the limit, each within the other."""
_MANY: Final = _compiled(rb"(?s)(?:[^\[{]*[\[{]){%d}" % (MAX_DEPTH + 1))
"""Text with as many brackets as a value needs to be too deep."""
_SPACE: Final = _compiled(_WS)
_BEGIN: Final = _compiled(_WS + rb"\{")
_EMPTY: Final = _compiled(_WS + rb"\}" + _WS + rb"\z")
_KEY: Final = _compiled(_STRING)
_COLON: Final = _compiled(_WS + rb":" + _WS)
_DELIMITER: Final = _compiled(_WS + rb"(?:,|\}" + _WS + rb"\z)")
_SURROGATE: Final = _compiled(rb"\\u[dD][89a-fA-F]" + _HEX * 2)
_NO_LONE: Final = _compiled(rb"(?s)(?:[^\\]|\\[^u]|\\" + _UNIT + rb"|\\" + _PAIR + rb")*")


def _end(expression: Any, body: bytes | bytearray, at: int) -> int:
    """The end of a match that begins at `at`; `at` itself if nothing matches."""
    found = expression.match(body, at)
    return found.end() if found is not None else at


def _why_no_value(body: bytes | bytearray, at: int) -> str:
    """Why there is no value at this position. If its depth may be the reason or not, the text names both."""
    if _end(_DEEP, body, at) > at:
        return f"nested deeper than {MAX_DEPTH} levels"
    if _end(_MANY, body, at) > at:
        return f"cut off, invalid, or deeper than {MAX_DEPTH} levels"
    return "cut off or invalid"


def _decoded(body: bytes | bytearray, start: int, end: int) -> str:
    if end - start > _LONGEST_NAME_BYTES:
        return ""
    try:
        return msgspec.json.decode(body[start:end], type=str)
    except UnicodeDecodeError as error:
        raise ScanError(f"the name at byte {start} is not UTF-8") from error


def _unreadable(body: bytes | bytearray, start: int, otherwise: str) -> ScanError:
    if surrogate := lone_surrogate(body, start):
        return ScanError(f"{surrogate} is half of a surrogate pair")
    return ScanError(otherwise)
