"""About where in a queue each request stands: for those who ask, and counted again only now and then.

The order of service is decided when there is room, and whoever comes later may go before; so this is how it
would be if nobody came: higher priorities first, and in each the flows by turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting

FRESH_S = 1.0
"""So long a count is good enough: a thousand who ask must not make a thousand counts."""


class Positions:
    """Of one queue."""

    def __init__(self) -> None:
        self._positions: dict[Waiting, int] = {}
        self._at = 0.0

    def of(self, place: Waiting, all_waiting: Iterable[Waiting], now: float) -> int:
        """From 1, which is next. `all_waiting` are in the order of their arrival."""
        if now - self._at >= FRESH_S or place not in self._positions:
            self._at = now
            self._positions = _counted(all_waiting)
        return self._positions[place]


def _counted(all_waiting: Iterable[Waiting]) -> dict[Waiting, int]:
    before: Counter[tuple[int, str]] = Counter()
    keys: list[tuple[int, int, int, Waiting]] = []
    for order, waiting in enumerate(all_waiting):
        flow = (waiting.priority, waiting.flow)
        keys.append((-waiting.priority, before[flow], order, waiting))
        before[flow] += 1
    keys.sort()
    return {key[3]: position for position, key in enumerate(keys, 1)}
