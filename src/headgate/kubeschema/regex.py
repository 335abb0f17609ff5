"""Regular expressions of users: RE2 only, because they come from anyone who may create an object.

Routes match requests by them, schemas match values; admission rejects those that do not compile. All use this
module, so that everything admitted also works. RE2 takes time in proportion to the text and to the compiled
program, so both are bounded.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import re2

__all__ = ["OF_ROUTES", "OF_SCHEMAS", "Bound", "RegexError", "TooLargeError", "compiled", "longest_text"]


class Bound(NamedTuple):
    """Limits of one expression."""

    instructions: int
    """Instructions of the compiled program."""
    memory_bytes: int
    """Memory of the program and of RE2's caches."""


OF_ROUTES: Final = Bound(2_000, 64 << 10)
"""A gateway may have tens of thousands of them."""
OF_SCHEMAS: Final = Bound(10_000, 1 << 20)

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


@functools.lru_cache(maxsize=1024)
def compiled(expression: str, bound: Bound = OF_ROUTES) -> Any:
    """A compiled expression, searched unanchored in linear time. Raises RegexError."""
    found = _compiled(expression, bound.memory_bytes)
    if found is None or found.programsize > bound.instructions:
        found = found or _compiled(expression, _MEASURED_BYTES)
        size = found.programsize if found is not None else f"more than {_MEASURED_BYTES >> 20} MB of"
        raise TooLargeError(
            f"it compiles to {size} instructions, and at most {bound.instructions} are allowed: repeat less "
            "often (such as {1,100}), use fewer alternatives, or ASCII classes instead of Unicode ones"
        )
    return found


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
