"""How many values one object may have: what judging it costs goes by their number, and others wait meanwhile.

The largest objects that are met are CustomResourceDefinitions of a megabyte, with some thirty thousand.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apiserver import errors

__all__ = ["MAX_VALUES", "check", "check_body"]

MAX_VALUES: Final = 100_000
"""Fields of maps and items of lists, at any depth; managedFields, which name each field again, included."""
_SHORTEST_VALUE: Final = 2
"""Bytes of a value in JSON or YAML with what sets it off from the next one; protobuf has longer ones."""


def check(value: Any) -> None:
    """413 if a value has too many values in it."""
    count, pending = 0, [value] if isinstance(value, dict | list) else []
    while pending:
        composed = pending.pop()
        inner = composed.values() if isinstance(composed, dict) else composed
        count += len(inner)
        if count > MAX_VALUES:
            raise errors.too_many_values(MAX_VALUES)
        pending += [each for each in inner if isinstance(each, dict | list)]


def check_body(body: bytes, value: Any) -> None:
    """413 if a body was decoded to too many values. Most are too short for that, and cost nothing."""
    if len(body) > MAX_VALUES * _SHORTEST_VALUE:
        check(value)
