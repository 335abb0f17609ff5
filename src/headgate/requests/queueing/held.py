"""The requests in one queue, with their counts for metrics and their positions for clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.requests.queueing.kinds import Kinds
from headgate.requests.queueing.positions import Positions

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.wait import Wait


class HeldRequests:
    def __init__(self) -> None:
        self._waits: dict[Waiting, Wait] = {}
        """In order of arrival."""
        self.kinds = Kinds()
        self._positions = Positions()

    def __len__(self) -> int:
        return len(self._waits)

    def waits(self) -> Iterable[Wait]:
        """Oldest first."""
        return self._waits.values()

    def add(self, wait: Wait) -> None:
        self._waits[wait.place] = wait
        self.kinds.increment(wait.kind, wait.place.size)

    def of(self, place: Waiting) -> Wait | None:
        """None if it is no longer queued."""
        return self._waits.get(place)

    def remove(self, wait: Wait) -> None:
        del self._waits[wait.place]
        self.kinds.decrement(wait.kind, wait.place.size)

    def position(self, place: Waiting, now: float) -> tuple[int, int]:
        """The position, 1 for the next request, and the tokens of work up to and including its own."""
        return self._positions.of(place, self._waits, now)
