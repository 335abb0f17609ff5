"""Patterns of schemas, matched by RE2 as in Kubernetes: unanchored, and in linear time.

Anyone who may register a CRD can bring patterns, so a backtracking engine is not an option.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from headgate.kubeschema import regex
from headgate.kubeschema.structural.nodes import LOGIC, nodes
from headgate.kubeschema.structural.shaping import Schema

__all__ = ["fault", "found", "is_plain"]


def found(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text; raises ValueError if RE2 rejects the pattern."""
    if len(text) <= _SHORT_TEXT:
        return _found_in_short(pattern, text)
    return _compiled(pattern).search(text) is not None


_SHORT_TEXT = 128
"""Objects repeat the same few names and amounts; results for longer texts are not cached."""


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


# What validating an object may cost, judged by the schema alone.
_MAX_PATTERNS: Final = 250
_LARGEST_PATTERN: Final = 50
"""Instructions that can match a text of the largest object's size within a second."""
_MAX_CHOICES: Final = 1000
"""In one enum, or required fields of one map."""


def is_plain(schema: Schema) -> bool:
    """Whether validating an object costs about one step per value.

    CEL rules, and schemas that combine others (allOf, anyOf, oneOf, not), have no such bound; long enums and
    many patterns cost more.
    """
    patterns = 0
    for node in nodes(schema):
        found = node.schema
        if "x-kubernetes-validations" in found or "not" in found or any(name in found for name in LOGIC):
            return False
        if isinstance(pattern := found.get("pattern"), str):
            patterns += 1
            if patterns > _MAX_PATTERNS or size(pattern) > _LARGEST_PATTERN:
                return False
        longest = max(len(found.get("enum") or ()), len(found.get("required") or ()))
        if longest > _MAX_CHOICES:
            return False
    return True
