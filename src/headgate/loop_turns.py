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
"""How long one connection's bytes may be read in one turn, and those of all that wait for theirs."""
MIN_TURN_S = 0.00002
"""What one connection gets where many wait: one request, or a few chunks."""
MAX_S = 0.01
"""How long all connections together may parse in one turn, those that had no turn before included."""
FIRST_BYTES = 64
"""Of the first piece. As long as pieces take less than `QUICK_S`, each is twice as long as the one before."""
QUICK_S = 0.0002
AT_ONCE_BYTES = 4096
"""Shorter data is not cut as long as there is time in the turn."""
LONG_READ_BYTES = 32 * 1024
"""A connection that brought this much in one read waits for its next turn before it is read again."""
CLOSED_AT_ONCE = 64
"""Connections that are closed in one turn, of clients that have gone."""
LONG_READS = 2
"""Connections that are read again in one turn. A read brings up to 256 KB, which take half a millisecond or
more, since the pages that the body grows by are new."""


def read_in_turn(
    data: bytes, take: Callable[[bytes, bool], bool], turn_s: float = TURN_S, size: int = FIRST_BYTES
) -> bytes:
    """Hands `data` on piece by piece, the first of this size, for so many seconds; returns what is left for
    the next turn.

    `take` gets a piece and whether more follows, and returns whether it wants to have it.
    """
    began = last = perf_counter()
    at = 0
    while at < len(data):
        end = at + size
        if not take(data[at:end], end < len(data)):
            return b""
        at = end
        now = perf_counter()
        if now - began > turn_s:
            return data[at:]
        if now - last < QUICK_S:
            size *= 2
        last = now
    return b""


class Turns:
    """Connections on which much is sent: a few of them go on in each turn of the loop, the others wait.

    uvloop reads a connection up to 32 times in a turn, which is 8 MB, and all connections that have data:
    sixty uploads would keep every other client waiting for a second. So would hundreds of connections with
    4 KB of tiny chunks or requests each, so that all parsing counts, also of what is short.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], bool]] = deque()
        self._light: deque[Callable[[], bool]] = deque()
        """Those that have never brought more than one turn could take: they go first."""
        self._is_scheduled = False
        self._spent_s = 0.0
        """On parsing, in this turn; or in several, while it is less than `TURN_S`."""

    def wait(self, go_on: Callable[[], bool], *, is_light: bool = False) -> None:
        """Calls `go_on` when it is this connection's turn; until then it must not read, parse or send.

        It returns whether much may be read now that is not counted as spent.
        """
        (self._light if is_light else self._waiting).append(go_on)
        self._schedule()

    @property
    def has_time(self) -> bool:
        """Whether another connection may parse in this turn."""
        return self._spent_s < MAX_S

    def read(self, data: bytes, take: Callable[[bytes, bool], bool], size: int = FIRST_BYTES) -> bytes:
        """`read_in_turn` for one connection, the shorter the more of them wait; counts the time. The first
        piece has this size where nobody waits."""
        began = perf_counter()
        waiting = len(self._light) + len(self._waiting)
        share_s = max(TURN_S / (waiting + 1), MIN_TURN_S)
        rest = read_in_turn(data, take, share_s, FIRST_BYTES if waiting else size)
        self.spent(perf_counter() - began)
        return rest

    def spent(self, seconds: float) -> None:
        """Counts the time that parsing took."""
        self._spent_s += seconds
        if self._spent_s > TURN_S:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._spent_s = 0.0
        light, waiting = self._light, self._waiting
        began = perf_counter()
        long_reads = 0
        try:
            for _ in range(len(light) + len(waiting)):
                long_reads += (light or waiting).popleft()()
                if long_reads >= LONG_READS or perf_counter() - began > TURN_S:
                    break
        finally:  # a fault of one connection must not leave the others waiting
            self._is_scheduled = False
            if light or waiting or self._spent_s > TURN_S:
                self._schedule()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._light) + len(self._waiting)}


class Closings:
    """Connections whose clients have gone: a few are closed in each turn, the others wait.

    Of thousands that go at once, the loop would close all in one turn, at 30 us each.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Transport] = deque()

    def add(self, transport: asyncio.Transport) -> None:
        """It is closed soon, once what was written has left."""
        self._waiting.append(transport)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        for _ in range(min(CLOSED_AT_ONCE, len(self._waiting))):
            self._waiting.popleft().close()
        if self._waiting:
            self._loop.call_soon(self._next)

    def close_all(self) -> None:
        """At once."""
        while self._waiting:
            self._waiting.popleft().close()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._waiting)}
