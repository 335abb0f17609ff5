"""Deadlines of queued requests.

There are two time budgets: one while the pool has endpoints, and one while it has none. Each starts at the
request's arrival, or when the pool last got its first endpoint or lost its last one, if later: a request that
waited for an endpoint has the full budget for its turn.
"""

from __future__ import annotations

import heapq
import math

from headgate.flow.queue.waiting import Waiting

MIN_DEAD = 64


class Expiry:
    """A heap of deadlines. Entries of requests that are no longer queued stay until they reach the front or
    are too many."""

    def __init__(self, no_endpoint_ttl_s: float) -> None:
        self._no_endpoint_ttl_s = no_endpoint_ttl_s
        self._ends: list[tuple[float, int, Waiting]] = []
        self._dead = 0
        self._changed_at = -math.inf
        self.is_empty = False
        """Whether the pool is without endpoints."""

    def add(self, waiting: Waiting) -> None:
        heapq.heappush(self._ends, (self._end_of(waiting), waiting.order, waiting))

    def removed(self) -> None:
        """Record that an added request is no longer queued."""
        self._dead += 1
        if self._dead > MIN_DEAD and self._dead > len(self._ends) // 2:
            self._ends = [entry for entry in self._ends if entry[2].state == "queued"]
            heapq.heapify(self._ends)
            self._dead = 0

    def change(self, is_empty: bool, now: float) -> None:
        """Record that the pool lost its last endpoint, or got its first."""
        self.is_empty, self._changed_at = is_empty, now
        self._rebuild()

    def set_ttl(self, no_endpoint_ttl_s: float) -> None:
        """Change the budget for the time without endpoints."""
        self._no_endpoint_ttl_s = no_endpoint_ttl_s
        self._rebuild()

    def _rebuild(self) -> None:
        ends = [(self._end_of(each), each.order, each) for _, _, each in self._ends if each.state == "queued"]
        heapq.heapify(ends)
        self._ends, self._dead = ends, 0

    def is_due(self, now: float) -> bool:
        """Whether the first entry has expired, even one no longer queued: called often, and cheap."""
        return bool(self._ends) and self._ends[0][0] <= now

    def at(self) -> float:
        """The earliest deadline of a queued request; infinite if none has one."""
        ends = self._ends
        while ends and ends[0][2].state != "queued":
            heapq.heappop(ends)
            self._dead -= 1
        return ends[0][0] if ends else math.inf

    def first(self) -> Waiting:
        """The request whose deadline `at` has returned."""
        return self._ends[0][2]

    def _end_of(self, waiting: Waiting) -> float:
        since = max(waiting.arrived, self._changed_at)
        budget_s = self._no_endpoint_ttl_s if self.is_empty else waiting.deadline - waiting.arrived
        return min(since + budget_s, waiting.gives_up_at)
