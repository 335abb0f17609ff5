"""Collects what one worker reports to the others about the queue of one pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from headgate.flow.queue import Usage
from headgate.flow.sharing import Charge, Charges, PoolReport

HEED_S = 1.0
"""For this long after others last reported a pool, this worker reports its requests in flight even with
nothing queued."""


class Reporting(Protocol):
    """The queue."""

    @property
    def held(self) -> int: ...

    def fullness(self, now: float) -> float | None: ...
    def parts(self, now: float) -> tuple[object, ...]: ...
    def report(self, came: Mapping[int, int], charges: Sequence[Charge], now: float) -> PoolReport: ...


class Place(msgspec.Struct, frozen=True):
    """The number of this worker, from 0, and the number of workers."""

    workers: int
    number: int
    has_peers: bool = False
    """Whether queues are shared with other gateways or pickers."""


ALONE = Place(1, 0)


class PendingReport:
    """The next report of one queue."""

    __slots__ = ("came", "charges", "heard_at", "told", "told_parts", "was_active")

    def __init__(self) -> None:
        self.came: Counter[int] = Counter()
        """Requests that needed to queue, by priority."""
        self.charges = Charges()
        self.heard_at = -math.inf
        """When others last reported the pool."""
        self.was_active = False
        self.told: float | None = None
        """The pool's fullness from requests of this worker, as last reported."""
        self.told_parts: object = None
        """The parts that this worker used then."""

    def served(self, priority: int, flow: str, taken: Usage, sent: int | None) -> None:
        """A request is over; `sent` is the work reported when it was dispatched, if it was queued."""
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
        """The report was not delivered: report all of it again."""
        self.was_active = True
        self.charges.add_all(report.charges)
        for priority, waits in report.bands.items():
            self.came[priority] += waits.came

    def report(self, queue: Reporting, now: float) -> PoolReport | None:
        """The next report; None if there is nothing to report."""
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
