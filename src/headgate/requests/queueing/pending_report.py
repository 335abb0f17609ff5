"""What one worker has to tell the others of the queue of one pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from headgate.flow.queue import Usage
from headgate.flow.sharing import Charge, Charges, PoolReport

HEED_S = 1.0
"""So long after others told of a pool, they are told what runs of it here, although nothing waits."""


class Reporting(Protocol):
    """The queue."""

    @property
    def held(self) -> int: ...

    def fullness(self, now: float) -> float | None: ...
    def parts(self, now: float) -> tuple[object, ...]: ...
    def report(self, came: Mapping[int, int], charges: Sequence[Charge], now: float) -> PoolReport: ...


class Place(msgspec.Struct, frozen=True):
    """Which of how many workers this is, from 0."""

    workers: int
    number: int


ALONE = Place(1, 0)


class PendingReport:
    """What is to be told of one queue."""

    __slots__ = ("came", "charges", "heard_at", "told", "told_parts", "was_active")

    def __init__(self) -> None:
        self.came: Counter[int] = Counter()
        """Requests that wanted to wait, by their priority."""
        self.charges = Charges()
        self.heard_at = -math.inf
        """When others last told something of the pool."""
        self.was_active = False
        self.told: float | None = None
        """How full the pool was with what runs here, as last told."""
        self.told_parts: object = None
        """What this worker went by then."""

    def served(self, priority: int, flow: str, taken: Usage, sent: int | None) -> None:
        """A request is over; `sent` is the work that was told when it went, if it had waited."""
        self.charges.add(
            priority,
            flow,
            sent=taken.work - sent if sent is not None else 0,
            prompt=taken.prompt_tokens,
            output=taken.output_tokens,
            cached=taken.cached_tokens,
            requests=taken.requests,
        )

    def missed(self, report: PoolReport) -> None:
        """It did not get to where it was told: all of it is told again."""
        self.was_active = True
        self.charges.add_all(report.charges)
        for priority, waits in report.bands.items():
            self.came[priority] += waits.came

    def report(self, queue: Reporting, now: float) -> PoolReport | None:
        """None where nothing is to be told."""
        is_active = bool(queue.held or self.came or self.charges)
        fullness = queue.fullness(now)
        is_heeded = now - self.heard_at < HEED_S and fullness != self.told
        parts = queue.parts(now)
        is_confirmed = parts == self.told_parts or self.heard_at == -math.inf
        if not (is_active or self.was_active or is_heeded) and is_confirmed:
            return None
        self.was_active, self.told, self.told_parts = is_active, fullness, parts
        came, self.came = self.came, Counter()
        return queue.report(came, self.charges.take(), now)
