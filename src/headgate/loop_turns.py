"""Divides the event loop's time among connections: received data is processed in pieces, for a short time per
turn.

A chunk of one byte or an empty event costs thousands of times its length in memory speed, and one read of a
socket may contain tens of thousands of them. The rest is processed in the next turn of the loop.

Many connections may have long bodies or tiny pieces at once: `Turns` limits what all of them take of a turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

TURN_S = 0.002
"""Time per turn for one connection's data, and for all that wait for theirs together."""
MIN_TURN_S: Final = 0.00002
"""Time of one connection if many wait: one request, or a few chunks."""
MAX_S = 0.01
"""Time per turn for parsing of all connections together, including those that had not waited for a turn."""
FIRST_BYTES: Final = 64
"""Size of the first piece. While a piece takes less than `QUICK_S`, the next one is twice as long."""
QUICK_S = 0.0002
AT_ONCE_BYTES: Final = 4096
"""Shorter data is not split while there is time in the turn."""
LONG_READ_BYTES: Final = 32 * 1024
"""A connection that received this much in one read waits for its next turn before it is read again."""
CLOSED_AT_ONCE = 64
"""Connections of departed clients closed per turn."""
LONG_READS: Final = 2
"""Connections read again per turn. A read returns up to 256 KB, which takes half a millisecond or more,
because the pages that the body grows by are new."""


def read_in_turn(
    data: bytes, take: Callable[[bytes, bool], bool], turn_s: float = TURN_S, size: int = FIRST_BYTES
) -> bytes:
    """Pass `data` on piece by piece, the first with `size` bytes, for up to `turn_s` seconds; returns the
    rest for the next turn.

    `take` gets a piece and whether more follows, and returns whether it accepts more.
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
    """Turns of connections with much data: a few of them go on in each turn of the loop, the others wait.

    uvloop reads a connection up to 32 times in a turn, which is 8 MB, and all connections that have data:
    sixty uploads would keep every other client waiting for a second. So would hundreds of connections with 4
    KB of tiny chunks or requests each, so all parsing counts, even of short data.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], bool]] = deque()
        self._light: deque[Callable[[], bool]] = deque()
        """Connections whose data always fitted into one turn: they go first."""
        self._is_scheduled = False
        self._spent_s = 0.0
        """Parsing time in this turn; or in several, while it is less than `TURN_S`."""

    def wait(self, go_on: Callable[[], bool], *, is_light: bool = False) -> None:
        """Call `go_on` when it is this connection's turn; until then it must not read, parse or send.

        `go_on` returns whether the connection may now read much data whose cost is not counted in `spent`.
        """
        (self._light if is_light else self._waiting).append(go_on)
        self._schedule()

    @property
    def has_time(self) -> bool:
        """Whether another connection may parse in this turn."""
        return self._spent_s < MAX_S

    def read(self, data: bytes, take: Callable[[bytes, bool], bool], size: int = FIRST_BYTES) -> bytes:
        """`read_in_turn` for one connection, shorter the more connections wait; counts the time. `size` is
        the first piece if none waits."""
        began = perf_counter()
        waiting = len(self._light) + len(self._waiting)
        share_s = max(TURN_S / (waiting + 1), MIN_TURN_S)
        rest = read_in_turn(data, take, share_s, FIRST_BYTES if waiting else size)
        self.spent(perf_counter() - began)
        return rest

    def spent(self, seconds: float) -> None:
        """Count time spent on parsing."""
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
        finally:  # an error of one connection must not leave the others waiting
            self._is_scheduled = False
            if light or waiting or self._spent_s > TURN_S:
                self._schedule()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._light) + len(self._waiting)}


class Backlog:
    """Received data that a connection has not parsed yet, and its place among those that wait for a turn."""

    __slots__ = ("data", "has_more", "is_light", "waits")

    def __init__(self) -> None:
        self.data = b""
        self.has_more = False
        """Whether the data being parsed goes on behind the current piece."""
        self.is_light = True
        """Whether everything that ever came was parsed in one turn."""
        self.waits = False
        """Whether reading is paused until it is this connection's turn."""

    def take(self) -> bytes:
        """Return the data, which is kept no longer."""
        data, self.data = self.data, b""
        return data


class Closings:
    """Closes the connections of departed clients, a few in each turn.

    If thousands disconnect at once, the loop would close all of them in one turn, at 30 us each.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Transport] = deque()

    def add(self, transport: asyncio.Transport) -> None:
        """Close the connection soon, once its written data has been sent."""
        self._waiting.append(transport)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        for _ in range(min(CLOSED_AT_ONCE, len(self._waiting))):
            self._waiting.popleft().close()
        if self._waiting:
            self._loop.call_soon(self._next)

    def close_all(self) -> None:
        """Close all at once."""
        while self._waiting:
            self._waiting.popleft().close()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._waiting)}


class LoopTurns:
    """The turns of all connections of one gateway."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.uploads = Turns(loop)
        """Of connections from clients, and of bodies sent to endpoints."""
        self.downloads = Turns(loop)
        """Of connections to endpoints."""
        self.closings = Closings(loop)
