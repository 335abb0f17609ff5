"""About where in a queue each request stands: for those who ask, and counted again only now and then.

The order of service is decided when there is room, and whoever comes later may go before; so this is how it
would be if nobody came: higher priorities first, and in each the flows by turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting

FRESH_S: Final = 1.0
"""So long a count is good enough: a thousand who ask must not make a thousand counts."""


class Positions:
    """Of one queue."""

    def __init__(self) -> None:
        self._positions: dict[int, tuple[int, int]] = {}
        """By the order of arrival: requests that have gone are not kept by it."""
        self._at = 0.0

    def of(self, place: Waiting, all_waiting: Iterable[Waiting], now: float) -> tuple[int, int]:
        """From 1, which is next; and the tokens of work up to its own. Of `all_waiting`, oldest first."""
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
