"""Work in a thread that leaves the event loop its time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

SWITCH_S = 0.001
"""How long the loop waits for the thread, at most, whenever it has something to do; 5 ms otherwise."""

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """The result of `work`, which is Python code that may take seconds, such as a parser of YAML."""
    return await asyncio.to_thread(_politely, work)


def _politely(work: Callable[[], T]) -> T:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_S))
    try:
        return work()
    finally:
        sys.setswitchinterval(before)
