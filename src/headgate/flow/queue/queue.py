"""The queue of one pool: bands by priority, flows in each band, and the requests of each flow in order."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, Literal

from headgate.flow.capacity import Capacity
from headgate.flow.queue import explain, reporting, why
from headgate.flow.queue.band import Band
from headgate.flow.queue.bands import Bands
from headgate.flow.queue.bounds import Bounds
from headgate.flow.queue.drain import DrainRate
from headgate.flow.queue.eviction import Evictions
from headgate.flow.queue.expiry import Expiry
from headgate.flow.queue.explain import QueueView
from headgate.flow.queue.fairness import Usage
from headgate.flow.queue.places import Full, make_place
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.starting import Starting
from headgate.flow.queue.totals import Totals
from headgate.flow.queue.turns import Turns
from headgate.flow.queue.waiting import Dropped, Waiting
from headgate.flow.queue.why import Why
from headgate.flow.sharing import Charge, PoolReport
from headgate.routing import Start

MIN_WAIT_S: Final = 0.001
"""The shortest time to look again if nothing happens."""
NO_ENDPOINT_RETRY_S: Final = 5
EXPIRED_AT_ONCE: Final = 64
"""Requests that expire before `dropped` must be called: thousands may have the same deadline."""


class FlowQueue:
    """The queue of one pool; outlives snapshots.

    The caller calls `next` until it returns None, and `dropped`, whenever something may have freed capacity;
    and both again at `wake_at`, if nothing happens before. A request that enters leaves once: sent, dropped,
    or left.
    """

    def __init__(
        self,
        settings: FlowSettings,
        capacity: Capacity,
        rng: random.Random,
        bounds: Bounds | None = None,
    ) -> None:
        """`bounds` are for a queue that several processes share."""
        self.settings = settings
        self.capacity = capacity
        self.bounds = bounds or Bounds(settings)
        """Limits of the queue."""
        self._bands = Bands(settings)
        self._starting = Starting(settings)
        self._expiry = Expiry(settings.no_endpoint_ttl_s)
        self._evictions = Evictions()
        self._drain = DrainRate(rng)
        self._totals = Totals()
        self._dropped: list[tuple[Waiting, Dropped]] = []
        self._is_closed = False
        self._turns = Turns(settings, self._bands, capacity)
        capacity.follow_bands(self._bands.priorities)

    @property
    def goes_by_usage(self) -> bool:
        """Whether fairness is based on usage, including that of requests that never wait."""
        return self._bands.go_by_usage

    def __len__(self) -> int:
        """Number of queued requests."""
        return self._totals.requests

    # -- events

    def passes(self, priority: int, now: float) -> bool:
        """Whether a new request goes at once: no queued request precedes it, and there is capacity.

        If True, the caller must send it before it calls anything else here.
        """
        turns, requests = self._turns, self._totals.requests
        if turns.decides_alone and not requests and priority in self._bands.by_priority:
            return self.capacity.judge.has_room(priority, now)
        band = self._band(priority)
        if not self.settings.is_on and not self._waits_for_start():
            return priority >= 0 or self.capacity.has_room(priority, now)
        if requests and not turns.is_first(band):
            return False
        if not turns.decides_alone:
            return self._passes_specially(band, priority, now)
        return self.capacity.has_room(priority, now)

    def enter(self, waiting: Waiting, now: float) -> Dropped | None:
        """Queue a request that did not pass; returns why not, if the queue is full for it.

        Others may have been dropped for it: call `dropped`.
        """
        self._keep_up(now)
        reason = self._reason_to_reject(waiting, now)
        if reason is not None:
            return self._rejected(waiting, reason, now)
        band, totals = self._band(waiting.priority), self._totals
        is_starting = self._expiry.is_empty and self._starting.start is not None
        bounds = self.bounds.while_starting() if is_starting else self.bounds
        try:
            lower = [each for each in reversed(self._bands.in_order) if each.priority < band.priority]
            gone = make_place(waiting, band, lower, bounds, totals.requests, totals.bytes)
        except Full as full:
            return self._rejected(waiting, why.full(full, has_endpoints=not self._expiry.is_empty), now)
        for each in gone:
            self._drop(each, why.pushed_out(each), now)
        if not totals.requests:
            self._drain.begin(now)
        waiting.order = totals.enter(waiting.size)
        waiting.state, waiting.band = "queued", band.priority
        band.add(waiting, now)
        self._expiry.add(waiting)
        return None

    def next(self, now: float) -> Waiting | None:
        """The next request to send; None if none is queued or there is no capacity. It has left the queue;
        send it before calling this again."""
        totals = self._totals
        if not totals.requests:
            return None
        self._keep_up(now)
        if self._expiry.is_due(now) and self._expiry.at() <= now:
            return None  # more requests have expired than one call drops
        turn = self._turns.next(now) if totals.requests else None
        if turn is None:
            return None
        band, waiting = turn
        if self._turns.has_floor:
            self._turns.took(band, waiting.work, now)
        band.send(waiting, now)
        self._count_out(waiting, "sent")
        totals.sent += 1
        self._drain.sent(waiting.work, now)
        if not self._turns.decides_alone:
            self._record_sent(waiting, now)
        return waiting

    def leave(self, waiting: Waiting, now: float) -> None:
        """Remove a request whose client has gone. No effect if it is not queued."""
        if waiting.state == "queued":
            self._bands[waiting.band].remove(waiting, now)
            self._count_out(waiting, "left")
            self._totals.left += 1

    def dropped(self, now: float) -> Sequence[tuple[Waiting, Dropped]]:
        """The requests dropped since the last call, and why."""
        self._keep_up(now)
        if not self._dropped:
            return ()
        dropped, self._dropped = self._dropped, []
        return dropped

    def responded(self, waiting: Waiting) -> None:
        """Record that a request cannot be evicted any more: it has ended, or the first byte of its response
        was sent."""
        self._evictions.over(waiting)

    def victims(self, now: float) -> Sequence[tuple[Waiting, Dropped]]:
        """Running sheddable requests to evict now for queued ones; none unless enabled."""
        if not self.settings.evicts_running or not self._totals.requests:
            return ()
        top = self._bands.top()
        if self.capacity.is_empty() or self.capacity.has_room(top.priority, now):
            return ()
        saturation, ceiling = self.capacity.saturation(now), self.capacity.ceiling(top.priority, now)
        in_flight = self.capacity.in_flight()
        chosen = self._evictions.choose(top.priority, saturation, ceiling, in_flight, now)
        return [(each, self._dropped_for(each, why.EVICTED, now)) for each in chosen]

    def served(
        self, flow: str, priority: int, work: int, usage: Usage, now: float, *, order: int = 0
    ) -> None:
        """Record that a request of a flow has ended that was expected to take `work`; `order` is that of its
        place in the queue, 0 if it was not queued."""
        self._band(priority).served(flow, work, usage, now, order)

    def charge(self, charges: Sequence[Charge], now: float) -> None:
        """Charge flows that other processes with the same queue have served."""
        goes_by_usage = self.goes_by_usage
        for charge in charges:
            band = self._band(charge.priority)
            band.charged(charge.flow, charge.sent, now)
            if goes_by_usage and charge.requests:
                usage = Usage(
                    prompt_tokens=charge.prompt,
                    output_tokens=charge.output,
                    cached_tokens=charge.cached,
                    requests=charge.requests,
                )
                band.served(charge.flow, usage.work, usage, now, 0)

    def use_start(self, start: Start | None, now: float) -> None:
        """Set how the pool is started by requests while it has no endpoints; None if it is not."""
        if start != self._starting.start:
            self._starting.start = start
            if self._totals.requests:
                self._starting.asked(now, is_awaited=True)
            self._use_starting()

    def _use_starting(self) -> None:
        self._expiry.set_ttl(self._starting.ttl_s)
        self._turns.goes_by_capacity = self.settings.is_on or self._starting.start is not None

    def change(self, settings: FlowSettings, now: float) -> None:
        """Apply other settings; what flows have used before is forgotten.

        Queued requests stay, even beyond new limits; but if queueing is off, all are sent.
        """
        waiting = [each for band in self._bands.in_order for each in band.members]
        waiting.sort(key=attrgetter("order"))
        self.settings = settings
        self.bounds = self.bounds.changed(settings)
        self._bands = Bands(settings)
        self._turns = Turns(settings, self._bands, self.capacity)
        self._starting.change(settings)
        self._use_starting()
        for each in waiting:
            band = self._band(each.priority)
            each.band = band.priority
            band.add(each, now)
        self.capacity.follow_bands(self._bands.priorities)

    def close(self, now: float) -> None:
        """Stop serving: drop all queued requests, and all that arrive."""
        self._is_closed = True
        for band in self._bands.in_order:
            for waiting in list(band.members):
                self._drop(waiting, why.CLOSED, now)

    # -- state

    def wake_at(self, now: float) -> float:
        """When to call `next` and `dropped` again even if nothing happens; infinite if never."""
        if self._dropped:
            return now
        if not self._totals.requests:
            return math.inf
        top = self._bands.top()
        at = self.capacity.room_at(top.priority, now)
        ready_at = top.fairness.ready_at(now)
        if ready_at > now:
            at = ready_at
        if self.settings.evicts_running:
            at = min(at, self._evictions.paused_until(now))
        return min(self._expiry.at(), max(at, now + MIN_WAIT_S))

    def statistics(self) -> dict[str, float]:
        """Totals of entered and rejected requests, and the present queue."""
        return self._totals.statistics() | {"work": sum(band.work for band in self._bands.in_order)}

    def sizes(self) -> list[tuple[int, int, int]]:
        """Priority, requests and bytes of each band with queued requests."""
        return [(band.priority, len(band), band.bytes) for band in self._bands.waiting()]

    def report(self, came: Mapping[int, int], charges: Sequence[Charge], now: float) -> PoolReport:
        """The report for other processes with the same queue. `came`: requests per priority that wanted to
        wait since the last report. `charges`: use of flows."""
        fullness = self.capacity.fullness(now)
        room = self.capacity.share
        return reporting.report(self._bands.in_order, self.bounds, came, charges, fullness, room)

    @property
    def top_priority(self) -> int:
        """The highest priority that is queued; raises LookupError if nothing is."""
        return self._bands.top().priority

    def starts_in_s(self, now: float) -> float | None:
        """Seconds until the pool is expected to have an endpoint; None if requests do not start it, it has
        one, or its start has failed."""
        start = self._starting.start
        if start is None or start.failure or not self.capacity.is_empty():
            return None
        return self._starting.left_s(now)

    @property
    def no_endpoint_ttl_s(self) -> float:
        """How long a request may wait for the first endpoint; 0 rejects it at once."""
        is_on = self.settings.is_on or self._starting.start is not None
        return self._starting.ttl_s if is_on else 0.0

    def drain_per_s(self, now: float) -> float:
        """Tokens of work that leave it per second; 0 if nothing left recently."""
        return self._drain.per_s(now)

    def explain(self, now: float) -> QueueView:
        return explain.view(self._bands.in_order, self.capacity, self.drain_per_s(now), now)

    def validate(self) -> None:
        """Check the invariants; for tests."""
        bands = self._bands.in_order
        for band in bands:
            band.validate()
        self._totals.validate()
        assert self._totals.requests == sum(map(len, bands))
        assert self._totals.bytes == sum(band.bytes for band in bands)
        assert all(waiting.state == "dropped" for waiting, _ in self._dropped)

    # -- sending

    def _passes_specially(self, band: Band, priority: int, now: float) -> bool:
        if priority < 0 and self.settings.evicts_running:
            return False  # it enters, so that it can be evicted
        if not self.capacity.has_room(priority, now) or band.fairness.is_pausing(now):
            return False
        self.capacity.sent(now)
        return True

    def _record_sent(self, waiting: Waiting, now: float) -> None:
        self.capacity.sent(now)
        if self.settings.evicts_running and waiting.priority < 0:
            self._evictions.sent(waiting)

    # -- rejecting and dropping

    def _waits_for_start(self) -> bool:
        """Whether requests wait because the pool had to be started for them: until the last has gone, new
        ones wait behind them."""
        is_started = self._starting.start is not None
        return is_started and (bool(self._totals.requests) or self.capacity.is_empty())

    def _reason_to_reject(self, waiting: Waiting, now: float) -> Why | None:
        """Why a request must not even wait."""
        if self._is_closed:
            return why.CLOSED
        if self._expiry.is_empty and self._starting.start is not None:
            self._starting.asked(now, is_awaited=bool(self._totals.requests))
            return self._starting.reason_to_reject(waiting, now)
        if self._expiry.is_empty and not (self.settings.is_on and self.settings.no_endpoint_ttl_s):
            return why.NO_ENDPOINT
        return None if self.settings.is_on or self._waits_for_start() else why.SHED

    def _rejected(self, waiting: Waiting, reason: Why, now: float) -> Dropped:
        waiting.state = "dropped"
        self._totals.dropped += 1
        return self._dropped_for(waiting, reason, now)

    def _expire(self, now: float) -> None:
        while len(self._dropped) < EXPIRED_AT_ONCE and self._expiry.at() <= now:
            waiting = self._expiry.first()
            waited_s = now - waiting.arrived
            if self._expiry.is_empty and self._starting.start is not None:
                reason = self._starting.expired(waited_s)
            else:
                reason = why.expired(waited_s, has_endpoints=not self._expiry.is_empty)
            self._drop(waiting, reason, now)

    def _drop(self, waiting: Waiting, reason: Why, now: float) -> None:
        self._bands[waiting.band].remove(waiting, now)
        self._count_out(waiting, "dropped")
        self._totals.dropped += 1
        self._dropped.append((waiting, self._dropped_for(waiting, reason, now)))

    def _count_out(self, waiting: Waiting, state: Literal["sent", "dropped", "left"]) -> None:
        waiting.state = state
        self._totals.remove(waiting.size)
        self._expiry.removed()

    def _dropped_for(self, waiting: Waiting, reason: Why, now: float) -> Dropped:
        """Adds when to retry: once everything before the request has drained."""
        if self._expiry.is_empty and self._starting.start is not None:
            after_s = math.ceil(max(self._starting.retry_after_s(now), 1.0))
        elif self._expiry.is_empty:
            after_s = NO_ENDPOINT_RETRY_S
        else:
            before = sum(each.work for each in self._bands.in_order if each.priority >= waiting.priority)
            after_s = self._drain.retry_after_s(before, now)
        return Dropped(reason=reason[0], message=reason[1], retry_after_s=after_s)

    # -- pool

    def _band(self, priority: int) -> Band:
        known = len(self._bands.in_order)
        band = self._bands.of(priority)
        if len(self._bands.in_order) != known:
            self.capacity.follow_bands(self._bands.priorities)
        return band

    def _keep_up(self, now: float) -> None:
        """Catch up with the pool's endpoints and with time."""
        is_empty = self.capacity.is_empty()
        if is_empty is not self._expiry.is_empty:
            self._expiry.change(is_empty, now)
            if not is_empty:
                self._starting.ended()
        if self._expiry.is_due(now):
            self._expire(now)
