"""The queue of one pool: dispatches requests in their turn, and drops those that may wait no longer.

Exactly one event ends the wait of a request: it is dispatched, it is dropped, or its client leaves. Anything
that may free capacity wakes the queue through its alarm. However often it is woken, the queue then looks once
and dispatches all requests that may go. If only time will free capacity, the alarm is set for that time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from headgate.flow.queue import Bounds, Dropped, FlowQueue, FlowSettings, QueueView, Waiting
from headgate.requests import charging
from headgate.requests.no_endpoint import no_endpoint
from headgate.requests.queue import WaitingForEndpoints
from headgate.requests.queueing import entering, reasons, words
from headgate.requests.queueing.flow_names import FlowNames
from headgate.requests.queueing.held import HeldRequests
from headgate.requests.queueing.kinds import Kinds, kind_of
from headgate.requests.queueing.pending_report import ALONE, PendingReport, Place
from headgate.requests.queueing.rivals import Rivals
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
"""Requests dispatched per look, so that other work of the process gets its turn."""
MAX_COUNTED = 1000
"""Queued requests whose tokens are added up, once a second at most."""


class PoolQueue:
    """Holds the requests of a pool that must wait. Lives as long as the pool, across snapshots."""

    def __init__(
        self,
        plane: DataPlane,
        pool: PoolState,
        queueing: Queueing,
        shell: QueueShell,
        now: float,
        place: Place = ALONE,
    ) -> None:
        """`place`: this worker's place among the workers that share the queue."""
        self._plane = plane
        self._pool = pool
        self._shell = shell
        self._observer = shell.observer
        self._flow_header = queueing.flow_header.encode()
        self.room = PoolRoom(plane, pool, queueing, shell.observer, 1.0 / place.workers, now)
        bounds = Bounds(queueing.flow, place.workers, place.number)
        self._flow = FlowQueue(queueing.flow, self.room.capacity, plane.rng, bounds)
        self._flow.use_start(pool.pool.start, now)
        is_shared = place.workers > 1 or place.has_peers
        self.tally = PendingReport() if is_shared else None
        """The next report for other workers or peers; None without any."""
        self._rivals = Rivals()
        self._held = HeldRequests()
        self.sharing: Sequence[PoolQueue] = (self,)
        """The queues of all pools that share endpoints with this one, including itself."""
        self.names = FlowNames(queueing.flow)
        """Names of the flows in use."""
        self._alarm = shell.alarm(self._look)
        self._is_removed = False

    # -- views

    @property
    def name(self) -> str:
        """The pool's name in metrics and logs."""
        return self._pool.name

    @property
    def settings(self) -> FlowSettings:
        return self._flow.settings

    @property
    def held(self) -> int:
        """The number of queued requests."""
        return len(self._held)

    @property
    def waiting_for_endpoints(self) -> WaitingForEndpoints | None:
        """The requests that wait because there is no endpoint; None if none came since there was one."""
        at = self.room.wanted_at
        return None if at is None else WaitingForEndpoints(self.held, at)

    @property
    def awaits_start(self) -> bool:
        """Whether requests start the pool, and none of its endpoints can be reached now."""
        return self.room.is_empty and self._pool.pool.start is not None

    @property
    def kinds(self) -> Kinds:
        """The number of queued requests, by the labels of metrics."""
        return self._held.kinds

    @property
    def counts_all(self) -> bool:
        """Whether fairness is based on usage, including that of requests that never wait."""
        return self._flow.goes_by_usage

    def passes(self, priority: int, now: float) -> bool:
        """Whether a request of this priority may be sent immediately."""
        rivals = self._rivals
        if rivals.top is not None and self.settings.is_on and rivals.precede(priority, self._pool.loads):
            return False
        return self._flow.passes(priority, now)

    def wake(self) -> None:
        """Look soon: there may be capacity."""
        self._alarm.wake()

    def refresh_endpoints(self, now: float) -> None:
        """Update the capacity, because an endpoint may have failed."""
        self.room.refresh_endpoints(now)

    def serves(self, load: EndpointState) -> bool:
        """Whether the endpoint belongs to the pool."""
        return load in self._pool.loads

    def waiting_tokens(self) -> tuple[float, float]:
        """Tokens of the queued requests: of their prompts without what is cached, and of their responses as
        expected. If there are many, those of the oldest are taken for typical."""
        work = output_tokens = counted = 0
        for wait in itertools.islice(self._held.waits(), MAX_COUNTED):
            scheduled = cast("Owner", wait.place.owner).life.decision.scheduled
            work += wait.place.work
            output_tokens += min(charging.output_tokens(scheduled, self._plane), wait.place.work)
            counted += 1
        share = self.held / counted if counted else 0.0
        return (work - output_tokens) * share, output_tokens * share

    def bands(self) -> Iterable[tuple[int, int, int]]:
        """For each priority with queued requests: their number and the size of their bodies."""
        return self._flow.sizes()

    def waits(self) -> Iterable[Wait]:
        """Queued requests, oldest first."""
        return self._held.waits()

    def why_wait(self, priority: int, now: float) -> str:
        """What a request that arrives now would wait for; empty if it would be sent immediately."""
        if self.room.is_empty:
            return words.why_without_endpoints(
                self._flow.no_endpoint_ttl_s, self._flow.starts_in_s(now), self._pool.pool.start
            )
        if not (self.settings.is_on or self._held):
            return ""
        ahead = sum(wait.place.priority >= priority for wait in self.waits())
        if ahead:
            return f"{ahead} wait before it"
        return self.room.why_full(priority, now)

    def explain(self, now: float) -> QueueView:
        """The queued requests, and why they wait."""
        return self._flow.explain(now)

    def progress(self, place: Waiting, now: float) -> str:
        """The progress message for the client of a queued request."""
        if self.room.is_empty:
            return words.progress_without_endpoints(self._flow.starts_in_s(now))
        position, work = self._held.position(place, now)
        per_s = self._flow.drain_per_s(now)
        when = f", about {max(work / per_s, 1.0):.0f} s" if per_s else ""
        return f"queued, position {position}{when}"

    # -- events

    def use(self, pool: PoolState, now: float) -> None:
        """Apply the pool of a new snapshot."""
        self._pool = pool
        self.room.use(pool, now)
        self._flow.use_start(pool.pool.start, now)
        if self._held:
            self.wake()

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        self.room.sweep(now)
        if self._held:
            self.wake()

    def change(self, queueing: Queueing, now: float) -> None:
        """Apply new settings; queued requests stay queued."""
        self._flow_header = queueing.flow_header.encode()
        self.room.change(queueing, now)
        self._flow.capacity = self.room.capacity
        self._flow.change(queueing.flow, now)
        self.names.settings = queueing.flow
        if self.tally is not None:
            self.tally.was_active = True  # others use the last reported bounds
        self.wake()

    def report(self, came: Mapping[int, int], charges: Sequence[Charge], now: float) -> PoolReport:
        """The report for other workers."""
        return self._flow.report(came, charges, now)

    def fullness(self, now: float) -> float | None:
        """Requests in flight from this worker, as a fraction of the whole capacity."""
        return self.room.fullness(now)

    def parts(self, now: float) -> tuple[object, ...]:
        """This worker's parts of the limits that all workers share."""
        return (self.room.share if self.room.fullness(now) is not None else None, *self._flow.bounds.parts())

    def take_share(self, share: PoolShare, now: float) -> None:
        """Apply this worker's new share of the limits, and the usage of flows at other workers."""
        self.room.take_share(share.room, share.elsewhere)
        self._flow.bounds.take(share)
        self._flow.charge(share.charges, now)
        if self._held:
            self.wake()

    def take_peers_share(self, share: PoolShare, now: float) -> None:
        """Apply this process's share of a queue that peers have too. Capacity is not divided: the requests of
        peers are in the ledger."""
        self._flow.bounds.take(share)
        self._flow.charge(share.charges, now)
        self._rivals.use(share)
        if self._held:
            self.wake()

    def close(self, now: float) -> None:
        """Drop all queued requests and reject new ones: the gateway shuts down."""
        self._flow.close(now)
        self._look(now)

    def remove(self, now: float) -> None:
        """Drop all requests, because the pool was deleted."""
        self._is_removed = True
        self._look(now)

    # -- requests

    def hold(self, owner: Owner, now: float) -> None:
        """Queue a request that does not pass, or reject it if there is no place."""
        began = self._observer.begins()
        life = owner.life
        request, decision = life.request, life.decision
        hints = self._shell.hints(life, self._flow_header)
        flow = self.names.of(hints)
        self.names.increment(flow, hints)
        size = self._shell.size(life)
        if decision.body is not request.body:
            request.body = b""  # only one of the two bodies is sent
        uncached_tokens = charging.uncached_tokens(decision.scheduled, self._plane, self._pool.loads)
        output_tokens = charging.output_tokens(decision.scheduled, self._plane)
        if life.wait is None or life.wait.home is not self:
            cached_tokens = decision.scheduled.prompt_tokens - uncached_tokens
            self._pool.traffic.asks(uncached_tokens, output_tokens, cached_tokens)
        work = uncached_tokens + output_tokens
        is_empty = self.room.is_empty
        before = life.wait
        begun_at = before.begun_at if before is not None and before.is_in(self) else None
        waiting = entering.waiting(
            owner, hints, flow, work, size, self.settings, now, begun_at, is_without_endpoints=is_empty
        )
        kind = kind_of(decision, waiting)
        wait = life.wait = Wait(self, waiting, kind, now, wants_progress=hints.wants_progress)
        wait.is_for_endpoint = is_empty
        wait.patience_ends_at = request.arrived_at + hints.patience_s
        if before is not None:
            wait.follow(before)
            self._flow.responded(before.place)
        self._held.add(wait)
        if self.tally is not None:
            self.tally.came[waiting.priority] += 1
        dropped = self._refused(waiting, now)
        outcome = reasons.HELD if dropped is None else dropped.reason
        self._observer.entered(self._pool, waiting, outcome, began)
        if dropped is not None:
            self._drop(wait, dropped, now)
        self.room.note_arrival(now)
        self.wake()

    def _refused(self, waiting: Waiting, now: float) -> Dropped | None:
        if self._is_removed:
            return reasons.DELETED
        if self._pool.pool.fault and self.room.is_empty:
            return reasons.FAULTY  # no new Pod will help
        return self._flow.enter(waiting, now)

    def settled(self, life: Life, now: float) -> None:
        """A request of the pool is over; if it is still queued, its client has left."""
        wait = life.wait
        if wait is not None and wait.home is self:
            waiting = wait.place
            mine = self._held.of(waiting)
            if mine is not None:
                self._flow.leave(waiting, now)
                mine.dropped_reason = reasons.CANCELLED
                self._end(mine, reasons.CANCELLED, now)
            else:
                self._flow.responded(waiting)
            # A reference cycle would keep both until the next garbage collection.
            waiting.owner = None
        if charging.has_taken(life):
            self._charge(life, now)

    def _charge(self, life: Life, now: float) -> None:
        """Charge the usage of a request to its flow."""
        wait, decision = life.wait, life.decision
        was_queued = wait is not None and wait.is_in(self)  # and not in a pool that it left
        if wait is not None and was_queued:
            flow, work, order = wait.place.flow, wait.place.work, wait.place.order
        else:
            flow = self.names.of(self._shell.hints(life, self._flow_header))
            work = decision.scheduled.prompt_tokens + decision.scheduled.output_tokens
            order = 0
        taken = charging.taken_by(life, work)
        if self.tally is not None:
            self.tally.served(decision.scheduled.priority, flow, taken, work if was_queued else None)
        self._flow.served(flow, decision.scheduled.priority, work, taken, now, order=order)

    def responded(self, life: Life) -> None:
        """The response head to a request that was queued has arrived."""
        if life.wait is not None:
            self._flow.responded(life.wait.place)

    # -- dispatch

    def room_made(self) -> None:
        """A request of the pool has freed capacity, which all queues for its endpoints may use."""
        for queue in self.sharing:
            if queue.held:
                queue.wake()

    def _look(self, now: float) -> None:
        """Dispatch all that may go, drop all that may wait no longer, and set the alarm."""
        self._alarm.stop()
        if self._is_removed:
            self._turn_all_away(now)
            return
        began = self._observer.begins()
        self._turn_away(self._flow.dropped(now), now)
        sent = 0
        is_yielding = self._yields(now)
        while not is_yielding and sent < AT_ONCE and (waiting := self._flow.next(now)) is not None:
            wait = self._held.of(waiting)
            assert wait is not None
            self._send(wait, now)
            sent += 1
        self._turn_away(self._flow.dropped(now), now)
        for waiting, dropped in self._flow.victims(now):
            self._evict(waiting, dropped, now)
        self.room.note_starvation(self.held, self._flow.no_endpoint_ttl_s)
        if sent == AT_ONCE:
            self.wake()
        elif self._held:
            wake_at = self._flow.wake_at(now)
            self._alarm.wake_at(min(wake_at, self._rivals.ends_at(now)) if is_yielding else wake_at, now)
        self._observer.looked(began)

    def _yields(self, now: float) -> bool:
        """Whether the capacity of the pool is left to requests that wait elsewhere."""
        rivals = self._rivals
        if rivals.top is None or not (self._held and self.settings.is_on):
            return False
        priority = self._flow.top_priority
        if not self.room.capacity.has_room(priority, now):
            rivals.no_capacity()
            return False
        return rivals.go_first(priority, self._pool.loads, now)

    def _send(self, wait: Wait, now: float) -> None:
        owner = cast("Owner", wait.place.owner)
        if self.tally is not None:
            self.tally.charges.add(wait.place.priority, wait.place.flow, sent=wait.place.work)
        self._end(wait, reasons.DISPATCHED, now)
        try:
            owner.admitted(self._pool, now)
        except Exception:
            self._observer.failed(self._pool, "sent")
            # Its failure must not keep others waiting.
            if not owner.life.is_over:
                broken = Refusal.broken("the gateway failed to send the request: see its log")
                self._tell(owner, broken, now)

    def _turn_all_away(self, now: float) -> None:
        """Drop all, in slices, so that other pools get their turns in between."""
        for wait in list(itertools.islice(self._held.waits(), AT_ONCE)):
            self._flow.leave(wait.place, now)
            self._drop(wait, reasons.DELETED, now)
        if self._held:
            self.wake()

    def _turn_away(self, dropped: Sequence[tuple[Waiting, Dropped]], now: float) -> None:
        for waiting, why in dropped:
            wait = self._held.of(waiting)
            if wait is not None:  # None if its client has left meanwhile
                self._drop(wait, why, now)

    def _drop(self, wait: Wait, dropped: Dropped, now: float) -> None:
        wait.dropped_reason = dropped.reason
        self._end(wait, dropped.reason, now)
        self._tell(cast("Owner", wait.place.owner), self._refusal(dropped, wait.seconds(now)), now)

    def _tell(self, owner: Owner, refusal: Refusal, now: float) -> None:
        """Reject one request; a failure must not affect others."""
        try:
            owner.turn_away(refusal, now)
        except Exception:
            self._observer.failed(self._pool, "refused")

    def _refusal(self, dropped: Dropped, waited_s: float) -> Refusal:
        """The refusal, with details if the pool has no endpoints."""
        pool = self._pool.pool
        if dropped.reason != reasons.NO_ENDPOINTS or self._is_removed:
            return reasons.refusal(dropped, str(pool.key))
        if pool.start is not None and not pool.fault:
            return reasons.not_started(dropped, str(pool.key), pool.start)
        none = no_endpoint(self._pool, self._plane.rules.max_requests)
        return reasons.without_endpoints(dropped, none, waited_s)

    def _evict(self, waiting: Waiting, dropped: Dropped, now: float) -> None:
        """Evict a running request in favor of queued ones."""
        owner = cast("Owner | None", waiting.owner)
        if owner is not None and owner.life.wait is not None and owner.life.can_be_evicted:
            owner.life.wait.dropped_reason = dropped.reason
            self._observer.evicted(self._pool, waiting.priority)
            owner.turn_away(self._refusal(dropped, 0.0), now)

    def _end(self, wait: Wait, outcome: str, now: float) -> None:
        self._held.remove(wait)
        self.names.decrement(wait.place.flow)
        wait.over_at = now
        if wait.is_for_endpoint:
            wait.endpoint_at = now if self.room.is_empty else self.room.ready_at
        self._observer.ended(self._pool, wait, outcome, now)
