"""Places of spans among those of their request: their ids derive from these.

So endpoints are told of their parents before there are any spans.
"""

from __future__ import annotations

from typing import Final

QUEUE: Final = 1
_EACH: Final = 4
"""Places of one attempt: its own, its prefill, its decode and its pick."""


def of_attempt(number: int) -> int:
    """The place of an attempt; `number` is at least 1."""
    return number * _EACH


def of_prefill(number: int) -> int:
    return number * _EACH + 1


def of_decode(number: int) -> int:
    return number * _EACH + 2


def of_pick(number: int) -> int:
    return number * _EACH + 3
