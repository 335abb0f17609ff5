"""Shares the event loop among connections: what one has received is read in pieces, for a short time a turn.

A chunk of one byte or an empty event costs thousands of times its length in memory speed, and one read of a
socket may bring tens of thousands of them. What is left is read in the next turn of the loop.

Many connections may have long bodies or tiny pieces at once: `Turns` bounds what all of them take of a turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

TURN_S = 0.002
"""How long one connection's bytes may be read in one turn."""
MOST_S = 0.01
"""How long all connections together may parse in one turn, those that had no turn before included."""
FIRST_BYTES = 2048
"""Of the first piece. As long as pieces take less than `QUICK_S`, each is twice as long as the one before."""
QUICK_S = 0.0002
AT_ONCE_BYTES = 4096
"""Shorter data is not worth being cut."""
LONG_READ_BYTES = 32 * 1024
"""A connection that brought this much in one read waits for its next turn before it is read again."""
LONG_READS = 2
"""Connections that go on in one turn. A read brings up to 256 KB, which take half a millisecond or
more, since the pages that the body grows by are new."""


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


class Turns:
    """Connections on which much is sent: a few of them go on in each turn of the loop, the others wait.

    uvloop reads a connection up to 32 times in a turn, which is 8 MB, and all connections that have data:
    sixty uploads would keep every other client waiting for a second. So would fifty connections with tiny
    chunks keep it for fifty times `TURN_S`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False
        self._spent_s = 0.0
        """On data that is not short, in this turn; or in several, while it is less than `TURN_S`."""

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` when it is this connection's turn; until then it must not read, parse or send."""
        self._waiting.append(go_on)
        self._schedule()

    @property
    def has_time(self) -> bool:
        """Whether another connection may parse data that is not short in this turn."""
        return self._spent_s < MOST_S

    def spent(self, seconds: float) -> None:
        """Counts the time that parsing such data took."""
        self._spent_s += seconds
        if self._spent_s > TURN_S:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._spent_s = 0.0
        waiting = self._waiting
        began = perf_counter()
        try:
            for _ in range(min(LONG_READS, len(waiting))):
                waiting.popleft()()
                if perf_counter() - began > TURN_S:
                    break
        finally:  # a fault of one connection must not leave the others waiting
            self._is_scheduled = False
            if waiting or self._spent_s > TURN_S:
                self._schedule()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._waiting)}
