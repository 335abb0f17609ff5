"""The queued requests of one flow in one band."""

from __future__ import annotations

import heapq
from collections import OrderedDict

from headgate.flow.queue.ordering import Key
from headgate.flow.queue.waiting import Waiting

MIN_DEAD = 32


class Flow:
    """Never empty, except while its last request is removed. Fairness policies keep their state of the flow
    here."""

    __slots__ = (
        "_dead",
        "_key",
        "_line",
        "bytes",
        "deficit",
        "entry",
        "head",
        "members",
        "name",
        "round",
        "since",
        "turn",
        "weight",
    )

    def __init__(self, name: str, weight: float, key: Key) -> None:
        self.name = name
        self.weight = weight
        self.bytes = 0
        self.members: OrderedDict[Waiting, None] = OrderedDict()
        """In order of arrival."""
        self._key = key
        # The line also holds requests that are no longer queued, until they reach the front or are too many.
        self._line: list[tuple[float, int, Waiting]] = []
        self._dead = 0
        self.head: Waiting
        """Its next request."""
        self.deficit = 0.0
        """Tokens that it may still take before its next turn; negative if it took more than its due."""
        self.round = 0
        self.turn = (0, 0)
        """Its position in each round: by the round in which it joined, latest first, then by order of
        joining."""
        self.since = 0
        """Order of the request with which it joined: earlier use is forgotten."""
        self.entry: tuple[tuple[float, ...], int, Flow] | None = None
        """Its valid entry in the ranking of its band; other entries are outdated."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def newest(self) -> Waiting:
        return next(reversed(self.members))

    def add(self, waiting: Waiting) -> bool:
        """Returns whether it is the head now."""
        if not self.members:
            self.since = waiting.order
        self.members[waiting] = None
        self.bytes += waiting.size
        heapq.heappush(self._line, (self._key(waiting), waiting.order, waiting))
        self.head = self._line[0][2]
        return self.head is waiting

    def remove(self, waiting: Waiting) -> bool:
        """Returns whether it was the head."""
        del self.members[waiting]
        self.bytes -= waiting.size
        if self.head is not waiting:
            self._dead += 1
            if self._dead > MIN_DEAD and self._dead > len(self.members):
                self._line = [entry for entry in self._line if entry[2] in self.members]
                heapq.heapify(self._line)
                self._dead = 0
            return False
        heapq.heappop(self._line)
        while self._line and self._line[0][2] not in self.members:
            heapq.heappop(self._line)
            self._dead -= 1
        if self._line:
            self.head = self._line[0][2]
        return True

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert self.members
        assert self.bytes == sum(waiting.size for waiting in self.members)
        assert len(self._line) == len(self.members) + self._dead
        best = min(self.members, key=lambda waiting: (self._key(waiting), waiting.order))
        assert self.head is self._line[0][2] is best
