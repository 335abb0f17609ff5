"""Regular expressions of users: RE2 only, because they come from anyone who may create an object.

Routes match requests by them; admission refuses those that do not compile. Both ask here, so that what is
admitted is what works.
"""

from __future__ import annotations

import functools
from typing import Any

import re2

__all__ = ["RegexError", "compiled"]

_MEMORY_BYTES = 1 << 20
"""A hostile expression is refused instead of growing its automaton."""


class RegexError(ValueError):
    """RE2 does not take the expression; the message says why."""


@functools.lru_cache(maxsize=1024)
def compiled(expression: str) -> Any:
    """An expression that is searched in linear time, unanchored. Raises RegexError."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not an RE2 expression"
        raise RegexError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from error
