"""The queue of one pool: bands by priority, each in its order."""

from __future__ import annotations

import random
from collections.abc import Sequence

from headgate.flow.capacity import Capacity
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.waiting import Dropped, Waiting


class FlowQueue:
    """All that wait for one pool. Keeps across snapshots."""

    def __init__(self, settings: FlowSettings, capacity: Capacity, rng: random.Random) -> None:
        self.settings = settings
        self.capacity = capacity
        self._rng = rng
        self._bands: dict[int, dict[Waiting, None]] = {}
        self._dropped: list[tuple[Waiting, Dropped]] = []
        self._order = 0

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._bands.values()))

    def passes(self, priority: int, work: int, now: float) -> bool:
        """Whether a request that comes now may go at once: nobody waits that goes before, and there is room.

        True commits to nothing: whoever asked sends the request before anything else happens here.
        """
        if any(band for at, band in self._bands.items() if band and at >= priority):
            return False
        return self.capacity.has_room(priority, now)

    def enter(self, waiting: Waiting, now: float) -> Dropped | None:
        """Takes a request that did not pass; says why not, if there is no place for it."""
        if not self.settings.no_endpoint_ttl_s and self.capacity.is_empty():
            waiting.state = "dropped"
            return Dropped(
                reason="rejected-no-endpoints", message="the pool has no endpoint", retry_after_s=1
            )
        if self.settings.max_requests and len(self) >= self.settings.max_requests:
            waiting.state = "dropped"
            return Dropped(reason="rejected-saturated", message="the queue is full", retry_after_s=1)
        self._order += 1
        waiting.order, waiting.state = self._order, "queued"
        self._bands.setdefault(waiting.priority, {})[waiting] = None
        return None

    def next(self, now: float) -> Waiting | None:
        """Who goes now; None if nobody waits, or there is no room. It has left the queue, and is to be sent
        before the next is asked for."""
        for priority in sorted(self._bands, reverse=True):
            for waiting in self._bands[priority]:
                if not self.capacity.has_room(priority, now):
                    return None
                self._remove(waiting, "sent")
                self.capacity.sent(now)
                return waiting
        return None

    def leave(self, waiting: Waiting) -> None:
        """Its client has gone: it waits no more. Harmless if it does not wait."""
        if waiting.state == "queued":
            self._remove(waiting, "left")

    def dropped(self, now: float) -> Sequence[tuple[Waiting, Dropped]]:
        """Those that lost their place since this was last asked, and why."""
        for band in self._bands.values():
            for waiting in [each for each in band if min(each.deadline, each.gives_up_at) <= now]:
                self._remove(waiting, "dropped")
                why = Dropped(reason="rejected-ttl-expired", message="waited too long", retry_after_s=1)
                self._dropped.append((waiting, why))
        dropped, self._dropped = self._dropped, []
        return dropped

    def close(self) -> None:
        """Nothing is served any more: all that wait are dropped."""
        for band in self._bands.values():
            for waiting in list(band):
                self._remove(waiting, "dropped")
                why = Dropped(reason="rejected-shutting-down", message="shutting down", retry_after_s=1)
                self._dropped.append((waiting, why))

    def wake_at(self, now: float) -> float:
        """When to ask for the next and the dropped again, even if nothing happens; infinite if never."""
        ends = [min(each.deadline, each.gives_up_at) for band in self._bands.values() for each in band]
        return min([*ends, self.capacity.room_at(now)]) if ends else float("inf")

    def answered(self, waiting: Waiting) -> None:
        """The first byte of its answer has gone to its client, or it has ended: it is evicted no more."""

    def victims(self, now: float) -> Sequence[tuple[Waiting, Dropped]]:
        """Running sheddable requests that are to end for those that wait."""
        return ()

    def served(
        self, flow: str, priority: int, work: int, prompt_tokens: int, output_tokens: int, now: float
    ) -> None:
        """A request of a flow has ended, whether it waited or not: `work` is what it was taken for, and the
        others what it was. What fairness goes by may follow."""

    def statistics(self) -> dict[str, float]:
        waiting = [each for band in self._bands.values() for each in band]
        return {
            "requests": len(waiting),
            "bytes": sum(each.size for each in waiting),
            "work": sum(each.work for each in waiting),
        }

    def validate(self) -> None:
        """Checks the invariants; for tests."""

    def _remove(self, waiting: Waiting, state: str) -> None:
        waiting.state = state  # type: ignore[assignment]
        del self._bands[waiting.priority][waiting]
