"""Patterns of schemas, matched by RE2 as in Kubernetes: found anywhere, and in linear time.

Patterns come with CRDs from anyone who may register one, so an engine that backtracks is no option.
"""

import functools
from typing import Any

from headgate.kubeschema import regex

__all__ = ["fault", "found", "size"]


def found(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text; raises ValueError if RE2 does not take the pattern."""
    if len(text) <= _SHORT_TEXT:
        return _found_in_short(pattern, text)
    return _compiled(pattern).search(text) is not None


_SHORT_TEXT = 128
"""Objects say the same few names and amounts again and again; what is longer is not kept."""


@functools.lru_cache(maxsize=4096)
def _found_in_short(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


def fault(pattern: str) -> str | None:
    """What is wrong with the pattern, if anything."""
    try:
        _compiled(pattern)
    except regex.TooLargeError as problem:
        return f"is too large: {problem}"
    except ValueError as problem:
        return f"must be a valid regular expression, but isn't: {problem}"
    return None


def size(pattern: str) -> int:
    """Instructions of the compiled pattern, which its time is proportional to; 0 if it does not compile."""
    try:
        return int(_compiled(pattern).programsize)
    except ValueError:
        return 0


def _compiled(pattern: str) -> Any:
    try:
        return regex.compiled(pattern, regex.OF_SCHEMAS)
    except regex.TooLargeError:
        raise
    except regex.RegexError as problem:
        raise ValueError(f"error parsing regexp: {problem}") from problem
