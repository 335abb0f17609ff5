"""Paths of fields: parsed, written, and matched with the paths of a table."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Steps = tuple[str | int, ...]
"""Keys of mappings and indexes of lists."""

ANY_ITEM: Final = "[]"
ANY_KEY: Final = "{}"
_MARKS = (ANY_ITEM, ANY_KEY)
_TOKEN = re.compile(r"\[(\d*)\]|(\{\})|\.?([^.\[\]{}]+)")


@functools.cache
def parsed(path: str) -> Steps:
    """The steps of a path in a table."""
    steps: list[str | int] = []
    for found in _TOKEN.finditer(path):
        if found[3]:
            steps.append(found[3])
        elif found[2]:
            steps.append(ANY_KEY)
        else:
            steps.append(int(found[1]) if found[1] else ANY_ITEM)
    return tuple(steps)


def written(steps: Steps) -> str:
    """The path as errors write it, such as spec.rules[0].modelMatch.headers[a.b]."""
    text = ""
    for step in steps:
        if isinstance(step, int) or "." in step or "[" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def match(pattern: Steps, steps: Steps) -> Steps | None:
    """What the marks of a pattern stand for, if the steps begin with it."""
    if len(steps) < len(pattern):
        return None
    stands_for: list[str | int] = []
    for wanted, step in zip(pattern, steps, strict=False):
        is_item = wanted == ANY_ITEM and isinstance(step, int)
        if is_item or (wanted == ANY_KEY and isinstance(step, str)):
            stands_for.append(step)
        elif wanted != step:
            return None
    return tuple(stands_for)


def filled(pattern: Steps, stands_for: Steps) -> Steps:
    """The pattern with its marks replaced, in order."""
    replacements = iter(stands_for)
    return tuple(next(replacements) if step in _MARKS else step for step in pattern)


def leaves(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Every scalar and every empty mapping or list, with its path."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*steps, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*steps, index))
    else:
        yield steps, value


class Absent:
    """Stands for a field that is not there, or for a list item that was left out."""


ABSENT: Final = Absent()


def value_at(obj: Any, steps: Steps) -> Any:
    """The value of a field; ABSENT if there is none."""
    for step in steps:
        if isinstance(obj, list) and isinstance(step, int):
            obj = obj[step] if step < len(obj) else ABSENT
        else:
            obj = obj.get(step, ABSENT) if isinstance(obj, Mapping) else ABSENT
        if obj is ABSENT:
            break
    return obj


def places(obj: Any, pattern: Steps, steps: Steps = ()) -> Iterator[Steps]:
    """The paths in an object that a pattern matches."""
    if not pattern:
        yield steps
        return
    first, rest = pattern[0], pattern[1:]
    if first == ANY_ITEM and isinstance(obj, list):
        candidates: Iterator[str | int] = iter(range(len(obj)))
    elif first == ANY_KEY and isinstance(obj, dict):
        candidates = iter(obj)
    else:
        candidates = iter((first,))
    for step in candidates:
        inner = value_at(obj, (step,))
        if inner is not ABSENT:
            yield from places(inner, rest, (*steps, step))
