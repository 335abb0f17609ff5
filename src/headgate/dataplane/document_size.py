"""Bounds for documents in YAML, whose aliases make much of few bytes."""

from __future__ import annotations

from typing import Any


def is_larger(value: Any, most: int) -> bool:
    """Whether there are more values than `most` in a tree of lists and mappings, with its aliases written
    out. Ends also if an alias contains itself."""
    open_ = [value]
    count = 0
    while open_ and count <= most:
        each = open_.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += 1 + len(inner)
        open_ += inner
    return count > most
