"""Patterns of schemas, matched by RE2 as in Kubernetes: found anywhere, and in linear time.

Patterns come with CRDs from anyone who may register one, so an engine that backtracks is no option.
"""

import functools
from typing import Any

import re2

__all__ = ["fault", "found"]


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
    except ValueError as problem:
        return str(problem)
    return None


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 would print to stderr as well
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else problem
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise ValueError(f"error parsing regexp: {reason}") from problem
