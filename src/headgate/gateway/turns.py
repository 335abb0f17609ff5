"""Shares the event loop among connections: what one has received is read in pieces, for a short time a turn.

A chunk of one byte or an empty event costs thousands of times its length in memory speed, and one read of a
socket may bring tens of thousands of them. What is left is read in the next turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

TURN_S = 0.002
"""How long one connection's bytes may be read in one turn."""
FIRST_BYTES = 2048
"""Of the first piece. As long as pieces take less than `QUICK_S`, each is twice as long as the one before."""
QUICK_S = 0.0002
AT_ONCE_BYTES = 4096
"""Shorter data is not worth being cut."""


def read_in_turn(data: bytes, take: Callable[[bytes, bool], bool]) -> bytes:
    """Hands `data` on piece by piece; returns what is left for the next turn.

    `take` gets a piece and whether more follows, and returns whether it wants to have it.
    """
    began = last = perf_counter()
    size, at = FIRST_BYTES, 0
    while at < len(data):
        end = at + size
        if not take(data[at:end], end < len(data)):
            return b""
        at = end
        now = perf_counter()
        if now - began > TURN_S:
            return data[at:]
        if now - last < QUICK_S:
            size *= 2
        last = now
    return b""
