"""The requests of one flow that wait in one band."""

from __future__ import annotations

import heapq
from collections import OrderedDict

from headgate.flow.queue.ordering import Key
from headgate.flow.queue.waiting import Waiting

MIN_DEAD = 32


class Flow:
    """Not empty, but while its last request is taken out. Fairness keeps what it knows of it here."""

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
        """In the order of their arrival."""
        self._key = key
        # The line has requests that wait no more as well, until they come to its front or are too many.
        self._line: list[tuple[float, int, Waiting]] = []
        self._dead = 0
        self.head: Waiting
        """Who is next of them."""
        self.deficit = 0.0
        """Tokens that it may still take before its next turn; less than 0 if it took more than its due."""
        self.round = 0
        self.turn = (0, 0)
        """Its place in each round: that it came in, the latest first, and the order of coming."""
        self.since = 0
        """The order of the request with which it came: what it had before is forgotten."""
        self.entry: tuple[tuple[float, ...], int, Flow] | None = None
        """What stands for it among the flows of its band; other entries that may be there are out of date."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def newest(self) -> Waiting:
        return next(reversed(self.members))

    def add(self, waiting: Waiting) -> bool:
        """Says whether it is the head now."""
        if not self.members:
            self.since = waiting.order
        self.members[waiting] = None
        self.bytes += waiting.size
        heapq.heappush(self._line, (self._key(waiting), waiting.order, waiting))
        self.head = self._line[0][2]
        return self.head is waiting

    def remove(self, waiting: Waiting) -> bool:
        """Says whether it was the head."""
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
        """Checks the invariants; for tests."""
        assert self.members
        assert self.bytes == sum(waiting.size for waiting in self.members)
        assert len(self._line) == len(self.members) + self._dead
        best = min(self.members, key=lambda waiting: (self._key(waiting), waiting.order))
        assert self.head is self._line[0][2] is best
