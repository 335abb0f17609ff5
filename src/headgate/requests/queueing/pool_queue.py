"""The queue of one pool: sends requests when it is their turn, and rejects those that may wait no longer.

Exactly one event ends the wait of a request: it is sent, it is dropped, or its client leaves. Whatever may
have made room wakes the queue through its alarm, however often. The queue then looks once: it sends all that
may go. If only time will make room, the alarm rings at that time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from headgate.flow.queue import Bounds, Dropped, FlowQueue, FlowSettings, QueueView, Waiting
from headgate.requests import charging
from headgate.requests.decision import no_endpoint
from headgate.requests.queueing import reasons
from headgate.requests.queueing.flow_names import FlowNames
from headgate.requests.queueing.held import HeldRequests
from headgate.requests.queueing.kinds import Kinds, kind_of
from headgate.requests.queueing.pending_report import ALONE, PendingReport, Place
from headgate.requests.queueing.room import PoolRoom
from headgate.requests.refusal import Refusal
from headgate.requests.wait import Wait

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.flow.configuration import Queueing
    from headgate.flow.sharing import Charge, PoolReport, PoolShare
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.life import Life
    from headgate.requests.owner import Owner
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.shell import QueueShell

AT_ONCE = 64
"""Requests that are sent in one look; then whatever else the process does has its turn."""


class PoolQueue:
    """Holds the requests of a pool that may not go yet. Lives as long as the pool, across snapshots."""

    def __init__(
        self,
        plane: DataPlane,
        pool: PoolState,
        queueing: Queueing,
        shell: QueueShell,
        now: float,
        place: Place = ALONE,
    ) -> None:
        """`place` is that of this worker among those that share the queue."""
        self._plane = plane
        self._pool = pool
        self._shell = shell
        self._observer = shell.observer
        self._flow_header = queueing.flow_header.encode()
        self.room = PoolRoom(plane, pool, queueing, shell.observer, 1.0 / place.workers, now)
        bounds = Bounds(queueing.flow, place.workers, place.number)
        self._flow = FlowQueue(queueing.flow, self.room.capacity, plane.rng, bounds)
        self.tally = PendingReport() if place.workers > 1 else None
        """What other workers are to be told; None where there are none."""
        self._held = HeldRequests()
        self.sharing: Sequence[PoolQueue] = (self,)
        """The queues of all pools that have endpoints of this one's, itself among them."""
        self.names = FlowNames(queueing.flow)
        """Which flows there are."""
        self._alarm = shell.alarm(self._look)
        self._is_removed = False

    # -- what is told of it

    @property
    def name(self) -> str:
        """Of its pool, as metrics and logs have it."""
        return self._pool.name

    @property
    def settings(self) -> FlowSettings:
        return self._flow.settings

    @property
    def held(self) -> int:
        """How many requests wait."""
        return len(self._held)

    @property
    def kinds(self) -> Kinds:
        """How many wait, as metrics tell them apart."""
        return self._held.kinds

    @property
    def counts_all(self) -> bool:
        """Whether fairness goes by what requests have taken, also of those that need not wait."""
        return self._flow.settings.goes_by_usage

    def passes(self, priority: int, now: float) -> bool:
        """Whether a request of this priority may go at once."""
        return self._flow.passes(priority, now)

    def wake(self) -> None:
        """There may be room."""
        self._alarm.wake()

    def refresh_endpoints(self, now: float) -> None:
        """An endpoint may have failed."""
        self.room.refresh_endpoints(now)

    def serves(self, load: EndpointState) -> bool:
        """Whether an endpoint is one of its pool's."""
        return load in self._pool.loads

    def bands(self) -> Iterable[tuple[int, int, int]]:
        """Of each priority with which requests wait: how many, and the bytes of their bodies."""
        return self._flow.sizes()

    def waits(self) -> Iterable[Wait]:
        """Those that are held, the oldest first."""
        return self._held.waits()

    def why_wait(self, priority: int, now: float) -> str:
        """What a request that comes now would wait for; empty if it would go at once."""
        settings = self.settings
        if not settings.is_on:
            return ""
        if self.room.is_empty:
            wait_s = settings.no_endpoint_ttl_s
            return f"no endpoint is ready: it waits up to {wait_s:g} s for one" if wait_s else ""
        ahead = sum(wait.place.priority >= priority for wait in self.waits())
        if ahead:
            return f"{ahead} wait before it"
        return self.room.why_full(priority, now)

    def explain(self, now: float) -> QueueView:
        """Who waits, and why."""
        return self._flow.explain(now)

    def progress(self, place: Waiting, now: float) -> str:
        """What a client hears that waits."""
        if self.room.is_empty:
            return "queued, no endpoint is ready yet"
        position, work = self._held.position(place, now)
        per_s = self._flow.drain_per_s(now)
        when = f", about {max(work / per_s, 1.0):.0f} s" if per_s else ""
        return f"queued, position {position}{when}"

    # -- what happens to it

    def use(self, pool: PoolState, now: float) -> None:
        """The pool as a new snapshot has it."""
        self._pool = pool
        self.room.use(pool, now)
        if self._held:
            self.wake()

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        self.room.sweep(now)
        if self._held:
            self.wake()

    def change(self, queueing: Queueing, now: float) -> None:
        """Goes on by other settings: those that wait go on waiting."""
        self._flow_header = queueing.flow_header.encode()
        self.room.change(queueing, now)
        self._flow.capacity = self.room.capacity
        self._flow.change(queueing.flow, now)
        self.names.settings = queueing.flow
        if self.tally is not None:
            self.tally.was_active = True  # others go by the bounds that were told last
        self.wake()

    def report(self, came: Mapping[int, int], charges: Sequence[Charge], now: float) -> PoolReport:
        """What other workers have to know."""
        return self._flow.report(came, charges, now)

    def fullness(self, now: float) -> float | None:
        """What this worker has in flight, as a share of all the room."""
        return self.room.fullness(now)

    def parts(self, now: float) -> tuple[object, ...]:
        """What this worker goes by of what is set for all."""
        return (self.room.share if self.room.fullness(now) is not None else None, *self._flow.bounds.parts())

    def take_share(self, share: PoolShare, now: float) -> None:
        """What this worker may do from now on, and what flows had at others."""
        self.room.take_share(share.room, share.elsewhere)
        self._flow.bounds.take(share)
        self._flow.charge(share.charges, now)
        if self._held:
            self.wake()

    def close(self, now: float) -> None:
        """Whoever waits is told that nobody is served any more, and whoever comes later."""
        self._flow.close(now)
        self._look(now)

    def remove(self, now: float) -> None:
        """The pool is gone."""
        self._is_removed = True
        self._look(now)

    # -- requests

    def hold(self, owner: Owner, now: float) -> None:
        """Takes a request that does not pass; or refuses it, if there is no place for it."""
        began = self._observer.begins()
        life = owner.life
        request, decision = life.request, life.decision
        hints = self._shell.hints(life, self._flow_header)
        flow = self.names.of(hints)
        self.names.increment(flow, hints)
        ttl_s = self.settings.ttl_s
        size = self._shell.size(life)
        if decision.body is not request.body:
            request.body = b""  # of the two, one is sent
        waiting = Waiting(
            owner,
            flow=flow,
            priority=decision.scheduled.priority,
            work=charging.work(decision.scheduled, self._plane, self._pool.loads),
            size=size,
            arrived=now,
            deadline=now + (ttl_s or math.inf),
            gives_up_at=request.arrived_at + hints.patience_s,
            slo_at=request.arrived_at + hints.objective_s,
        )
        kind = kind_of(decision, waiting)
        wait = life.wait = Wait(self, waiting, kind, now, wants_progress=hints.wants_progress)
        self._held.add(wait)
        if self.tally is not None:
            self.tally.came[waiting.priority] += 1
        dropped = self._refused(waiting, now)
        outcome = reasons.HELD if dropped is None else dropped.reason
        self._observer.entered(self._pool, waiting, outcome, began)
        if dropped is not None:
            self._drop(wait, dropped, now)
        self.wake()

    def _refused(self, waiting: Waiting, now: float) -> Dropped | None:
        if self._is_removed:
            return reasons.DELETED
        if self._pool.pool.fault and self.room.is_empty:
            return reasons.FAULTY  # no Pod that comes will help
        return self._flow.enter(waiting, now)

    def settled(self, life: Life, now: float) -> None:
        """A request of the pool is over; if it still waits, its client has gone."""
        wait = life.wait
        if wait is not None and wait.home is self:
            waiting = wait.place
            mine = self._held.of(waiting)
            if mine is not None:
                self._flow.leave(waiting, now)
                mine.dropped_reason = reasons.CANCELLED
                self._end(mine, reasons.CANCELLED, now)
            else:
                self._flow.answered(waiting)
            # A reference cycle would keep both until the next garbage collection.
            waiting.owner = None
        if charging.has_taken(life):
            self._charge(life, now)

    def _charge(self, life: Life, now: float) -> None:
        """Fairness may go by what a request has taken."""
        wait, decision = life.wait, life.decision
        if wait is not None:
            flow, work, order = wait.place.flow, wait.place.work, wait.place.order
        else:
            flow = self.names.of(self._shell.hints(life, self._flow_header))
            work = decision.scheduled.prompt_tokens + decision.scheduled.output_tokens
            order = 0
        taken = charging.taken_by(life, work)
        if self.tally is not None:
            self.tally.served(decision.scheduled.priority, flow, taken, work if wait is not None else None)
        self._flow.served(flow, decision.scheduled.priority, work, taken, now, order=order)

    def answered(self, life: Life) -> None:
        """The head of an answer is here to a request that waited."""
        if life.wait is not None:
            self._flow.answered(life.wait.place)

    # -- whose turn it is

    def room_made(self) -> None:
        """Something of a request of the pool has ended: whoever waits for its endpoints may go."""
        for queue in self.sharing:
            if queue.held:
                queue.wake()

    def _look(self, now: float) -> None:
        """Sends all that may go, tells all that may not wait longer, and sleeps until something is due."""
        self._alarm.stop()
        if self._is_removed:
            self._turn_all_away(now)
            return
        began = self._observer.begins()
        self._turn_away(self._flow.dropped(now), now)
        sent = 0
        while sent < AT_ONCE and (waiting := self._flow.next(now)) is not None:
            wait = self._held.of(waiting)
            assert wait is not None
            self._send(wait, now)
            sent += 1
        self._turn_away(self._flow.dropped(now), now)
        for waiting, dropped in self._flow.victims(now):
            self._evict(waiting, dropped, now)
        self.room.note_starvation(self.held, self.settings.no_endpoint_ttl_s)
        if sent == AT_ONCE:
            self.wake()
        elif self._held:
            self._alarm.wake_at(self._flow.wake_at(now), now)
        self._observer.looked(began)

    def _send(self, wait: Wait, now: float) -> None:
        owner = cast("Owner", wait.place.owner)
        if self.tally is not None:
            self.tally.charges.add(wait.place.priority, wait.place.flow, sent=wait.place.work)
        self._end(wait, reasons.DISPATCHED, now)
        try:
            owner.admitted(self._pool, now)
        except Exception:
            self._observer.failed(self._pool, "sent")
            # The others must not wait for it.
            if not owner.life.is_over:
                broken = Refusal.broken("the gateway failed to send the request: its log says why")
                self._tell(owner, broken, now)

    def _turn_all_away(self, now: float) -> None:
        """In slices: other pools have their turns in between."""
        for wait in list(itertools.islice(self._held.waits(), AT_ONCE)):
            self._flow.leave(wait.place, now)
            self._drop(wait, reasons.DELETED, now)
        if self._held:
            self.wake()

    def _turn_away(self, dropped: Sequence[tuple[Waiting, Dropped]], now: float) -> None:
        for waiting, why in dropped:
            wait = self._held.of(waiting)
            if wait is not None:  # else its client left before it was told
                self._drop(wait, why, now)

    def _drop(self, wait: Wait, dropped: Dropped, now: float) -> None:
        wait.dropped_reason = dropped.reason
        self._end(wait, dropped.reason, now)
        self._tell(cast("Owner", wait.place.owner), self._refusal(dropped, wait.seconds(now)), now)

    def _tell(self, owner: Owner, refusal: Refusal, now: float) -> None:
        """The others that are to be told must not depend on it."""
        try:
            owner.turn_away(refusal, now)
        except Exception:
            self._observer.failed(self._pool, "refused")

    def _refusal(self, dropped: Dropped, waited_s: float) -> Refusal:
        """The answer, with what is known here of a pool without endpoints."""
        if dropped.reason != reasons.NO_ENDPOINTS or self._is_removed:
            return reasons.refusal(dropped, str(self._pool.pool.key))
        none = no_endpoint(self._pool, self._plane.rules.max_requests)
        return reasons.without_endpoints(dropped, none, waited_s)

    def _evict(self, waiting: Waiting, dropped: Dropped, now: float) -> None:
        """Ends a running request for others that wait."""
        owner = cast("Owner | None", waiting.owner)
        if owner is not None and owner.life.wait is not None and owner.life.can_be_evicted:
            owner.life.wait.dropped_reason = dropped.reason
            self._observer.evicted(self._pool, waiting.priority)
            owner.turn_away(self._refusal(dropped, 0.0), now)

    def _end(self, wait: Wait, outcome: str, now: float) -> None:
        self._held.remove(wait)
        self.names.decrement(wait.place.flow)
        wait.over_at = now
        self._observer.ended(self._pool, wait, outcome, now)
