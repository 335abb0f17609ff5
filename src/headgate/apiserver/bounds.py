"""How many values one object may have, and how deep: what judging it costs goes by their number, and what
can be decoded at all must not depend on the stack of an interpreter.

The largest objects that are met are CustomResourceDefinitions of a megabyte, with some thirty thousand.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apiserver import errors

__all__ = ["MAX_DEPTH", "MAX_VALUES", "check", "check_body"]

MAX_VALUES: Final = 100_000
"""Fields of maps and items of lists, at any depth; managedFields, which name each field again, included."""
MAX_DEPTH: Final = 500
"""Maps and lists in each other. Decoders on Python 3.11 read some 1,000, later ones many more."""


def check(value: Any) -> None:
    """413 if a value has too many values in it, 400 if they are nested too deeply."""
    count = depth = 0
    level = [value] if isinstance(value, dict | list) else []
    while level:
        count += sum(map(len, level))
        depth += 1
        if count > MAX_VALUES:
            raise errors.too_many_values(MAX_VALUES)
        if depth > MAX_DEPTH:
            raise errors.too_deep(MAX_DEPTH)
        level = [
            inner
            for composed in level
            for inner in (composed.values() if isinstance(composed, dict) else composed)
            if isinstance(inner, dict | list)
        ]


def check_body(body: bytes, value: Any) -> None:
    """`check` for what a body was decoded to. Short ones keep both limits."""
    if len(body) > MAX_DEPTH:  # a level takes a byte at least
        check(value)
