"""Regular expressions of users: RE2 only, because they come from anyone who may create an object.

Routes match requests by them, schemas match values; admission refuses those that do not compile. All ask
here, so that what is admitted is what works. RE2 takes time in proportion to the text and to the compiled
program, so both are bounded.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import re2

__all__ = ["OF_ROUTES", "OF_SCHEMAS", "Bound", "RegexError", "TooLargeError", "compiled", "longest_text"]


class Bound(NamedTuple):
    """How large one expression may be."""

    instructions: int
    """Of the compiled program."""
    memory_bytes: int
    """Of the program and of what RE2 keeps to match faster."""


OF_ROUTES: Final = Bound(2_000, 64 << 10)
"""A gateway may have tens of thousands of them."""
OF_SCHEMAS: Final = Bound(10_000, 1 << 20)

_WORK: Final = 1_000_000
"""Steps of a match, each an instruction at a character: some 12 ms at worst."""
_MEASURED_BYTES: Final = 2 << 20
"""Of what needs more, the number of instructions is not counted: to compile it takes too long."""


_REPETITION: Final = (
    "; at most {1000} is allowed, and the bounds of nested repetitions are multiplied: (a{100}){100} counts "
    "as {10000}. Make one of them smaller, or use * or +"
)


class RegexError(ValueError):
    """RE2 does not take the expression; the message says why."""


class TooLargeError(RegexError):
    """The expression is larger than the bound; the message says its size and the bound."""


@functools.lru_cache(maxsize=1024)
def compiled(expression: str, bound: Bound = OF_ROUTES) -> Any:
    """An expression that is searched in linear time, unanchored. Raises RegexError."""
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
    """Characters that a compiled expression is searched in while a request waits."""
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
