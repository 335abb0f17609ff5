"""Regular expressions of users: RE2 only, because they come from anyone who may create an object.

Routes match requests by them, schemas match values; admission rejects those that do not compile. All use this
module, so that everything admitted also works. RE2 takes time in proportion to the text and to the compiled
program, so both are bounded. Compiling takes time as well, most of all for Unicode classes, so these are
bounded too, and so are all expressions of one object together (`Budget`).
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NamedTuple

import re2

__all__ = [
    "OF_ROUTES",
    "OF_SCHEMAS",
    "Bound",
    "Budget",
    "RegexError",
    "TooLargeError",
    "compiled",
    "longest_text",
]


class Bound(NamedTuple):
    """Limits of one expression."""

    instructions: int
    """Instructions of the compiled program."""
    memory_bytes: int
    """Memory of the program and of RE2's caches."""
    unicode_classes: int
    """Classes such as \\p{L}; each takes about 0.1 ms to compile."""


OF_ROUTES: Final = Bound(2_000, 64 << 10, 16)
"""A gateway may have tens of thousands of them."""
OF_SCHEMAS: Final = Bound(10_000, 1 << 20, 64)

_UNICODE_CLASS = re.compile(r"\\[pP]")
_OBJECT_COST: Final = 100_000
"""Of all expressions of an object, in units of about half a microsecond at worst."""
_EXPRESSION_COST: Final = 1_000
"""Of any expression: one of 20 characters may have a program of the largest size."""
_CLASS_COST: Final = 256
_MEASURING_COST: Final = 40_000
"""Of counting the instructions of an expression that is too large."""

_WORK: Final = 1_000_000
"""Steps per match, each an instruction at a character: about 12 ms at worst."""
_MEASURED_BYTES: Final = 2 << 20
"""The instructions of a larger program are not counted: compiling it takes too long."""


_REPETITION: Final = (
    "; at most {1000} is allowed, and the bounds of nested repetitions are multiplied: (a{100}){100} counts "
    "as {10000}. Make one of them smaller, or use * or +"
)


class RegexError(ValueError):
    """RE2 rejects the expression; the message says why."""


class TooLargeError(RegexError):
    """The expression exceeds the limit; the message has its size and the limit."""


class Budget:
    """Compiles the expressions of one object, and limits what that costs."""

    def __init__(self) -> None:
        self._left = _OBJECT_COST
        self._seen: dict[str, TooLargeError | None] = {}
        self.is_exceeded = False

    def compiled(self, expression: str) -> Any:
        """Like the function of this name, for expressions of routes. Raises RegexError."""
        if expression not in self._seen:
            self._spend(expression)
            self._seen[expression] = None
        if (known := self._seen[expression]) is not None:
            raise known
        try:
            return compiled(expression)
        except TooLargeError as error:
            self._seen[expression] = error
            self._left -= _MEASURING_COST
            raise

    def _spend(self, expression: str) -> None:
        classes = len(_UNICODE_CLASS.findall(expression))
        self._left -= _EXPRESSION_COST + len(expression) + _CLASS_COST * classes
        if self._left < 0:
            self.is_exceeded = True
            raise TooLargeError(
                "all regular expressions of this object together take too long to compile: use fewer (at "
                "most about 90 short ones) or shorter ones, exact or prefix, or several objects"
            )


def compiled(expression: str, bound: Bound = OF_ROUTES) -> Any:
    """A compiled expression, searched unanchored in linear time. Raises RegexError."""
    found = _outcome(expression, bound)
    if isinstance(found, RegexError):
        raise found.with_traceback(None)
    return found


@functools.lru_cache(maxsize=1024)
def _outcome(expression: str, bound: Bound) -> Any:
    """A compiled expression, or the error: finding it takes longest for those that are too large."""
    if (classes := len(_UNICODE_CLASS.findall(expression))) > bound.unicode_classes:
        return TooLargeError(
            rf"it has {classes} Unicode classes (\p), and at most {bound.unicode_classes} are allowed: "
            "use fewer, or ASCII classes"
        )
    try:
        found = _compiled(expression, bound.memory_bytes)
        if found is not None and found.programsize <= bound.instructions:
            return found
        found = found or _compiled(expression, _MEASURED_BYTES)
    except RegexError as error:
        return error
    size = found.programsize if found is not None else f"more than {_MEASURED_BYTES >> 20} MB of"
    return TooLargeError(
        f"it compiles to {size} instructions, and at most {bound.instructions} are allowed: repeat less "
        "often (such as {1,100}), use fewer alternatives, or ASCII classes instead of Unicode ones"
    )


def longest_text(expression: Any) -> int:
    """The longest text that a compiled expression may search while a request waits."""
    return int(_WORK // max(expression.programsize, 1))


def _compiled(expression: str, memory_bytes: int) -> Any:
    """None if it needs more memory."""
    options = re2.Options()
    options.log_errors = False  # RE2 would print to stderr as well
    options.max_mem = memory_bytes
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not an RE2 expression"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in reason:
            return None
        if "repetition size" in reason:
            reason += _REPETITION
        raise RegexError(reason) from error
