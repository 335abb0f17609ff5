"""Approximate positions of requests in a queue, recounted only now and then.

The order of service is decided when there is capacity, and later requests may go first. So this is the order
if no more requests arrived: higher priorities first, and within each the flows in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting

FRESH_S: Final = 1.0
"""Positions are reused for this long, so that a thousand clients that ask do not cause a thousand counts."""


class Positions:
    """Positions in one queue."""

    def __init__(self) -> None:
        self._positions: dict[int, tuple[int, int]] = {}
        """By order of arrival, which does not keep references to requests that have left."""
        self._at = 0.0

    def of(self, place: Waiting, all_waiting: Iterable[Waiting], now: float) -> tuple[int, int]:
        """Position from 1, which is next, and tokens of work up to and including its own. `all_waiting` is
        oldest first."""
        if now - self._at >= FRESH_S or place.order not in self._positions:
            self._at = now
            self._positions = _counted(all_waiting)
        return self._positions[place.order]


def _counted(all_waiting: Iterable[Waiting]) -> dict[int, tuple[int, int]]:
    before: Counter[tuple[int, str]] = Counter()
    keys: list[tuple[int, int, int, int]] = []
    for waiting in all_waiting:
        flow = (waiting.priority, waiting.flow)
        keys.append((-waiting.priority, before[flow], waiting.order, waiting.work))
        before[flow] += 1
    keys.sort()
    works = accumulate(key[3] for key in keys)
    return {key[2]: (position, work) for position, (key, work) in enumerate(zip(keys, works, strict=True), 1)}
