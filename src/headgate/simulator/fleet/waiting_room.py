"""Where requests wait for their turn, in front of the fleet: the gateway's queue in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from headgate.flow import capacity
from headgate.flow.queue import Dropped, FlowQueue, FlowSettings, Waiting
from headgate.requests import charging
from headgate.requests.data_plane import DataPlane
from headgate.requests.life import Life
from headgate.requests.owner import Owner
from headgate.requests.pool_state import PoolState
from headgate.requests.refusal import Refusal
from headgate.simulator.fleet.request import TracedRequest
from headgate.simulator.fleet.timeline import Timeline

BYTES_PER_TOKEN = 4


class SimulatedWait:
    """The time that one request spends here. Its client does not ask how far it is."""

    wants_progress = has_head = False
    told_at, told_bytes = 0.0, 0

    __slots__ = ("begun_at", "dropped_reason", "home", "over_at", "place")

    def __init__(self, home: WaitingRoom, place: Waiting, begun_at: float) -> None:
        self.home = home
        self.place = place
        self.begun_at = begun_at
        self.over_at: float | None = None
        self.dropped_reason = ""

    @property
    def is_over(self) -> bool:
        return self.over_at is not None

    def seconds(self, now: float) -> float:
        return (now if self.over_at is None else self.over_at) - self.begun_at

    def progress(self, now: float) -> str:
        return ""


class WaitingRoom:
    """Sends requests when it is their turn, and tells those that have none."""

    counts_all = True

    def __init__(
        self,
        settings: FlowSettings,
        room: capacity.CapacitySettings,
        plane: DataPlane,
        timeline: Timeline,
        waits: Callable[[], None],
    ) -> None:
        """`waits` is told, after each look at the queue, if any wait still."""
        self.queue = FlowQueue(settings, capacity.make(room), plane.rng)
        self.passes = self.queue.passes
        self._tell_waits = waits
        self._plane = plane
        self._timeline = timeline
        self._pool: PoolState | None = None
        self._is_looking = False
        self._looks_at = math.inf

    def follow(self, pool: PoolState) -> None:
        """Which endpoints there are from now on."""
        self._pool = pool
        self.queue.capacity.follow(pool.loads, pool.pool.phases)
        self.room_made()

    def refresh_endpoints(self) -> None:
        """Endpoints that fail keep their room: what waits for them goes elsewhere when it is sent."""

    def why_wait(self, priority: int) -> str:
        return "" if self.queue.passes(priority, self._timeline.now) else "others wait before it"

    def hold(self, owner: Owner, now: float) -> None:
        """A request comes that may not go at once; it may be refused."""
        life, settings = owner.life, self.queue.settings
        request = cast(TracedRequest, life.request)
        timed = request.timed
        waiting = Waiting(
            owner,
            flow=timed.tenant,
            priority=timed.priority,
            work=self._work(life),
            size=BYTES_PER_TOKEN * timed.prompt_tokens,
            arrived=now,
            deadline=now + settings.ttl_s if settings.ttl_s else math.inf,
        )
        life.wait = SimulatedWait(self, waiting, now)
        refused = self.queue.enter(waiting, now)
        if refused is not None:
            self._drop(waiting, refused)
        self.room_made()

    def answered(self, life: Life) -> None:
        """Nobody is taken back from an endpoint."""

    def settled(self, life: Life, now: float) -> None:
        """A request that was sent is over: fairness may go by what it has taken."""
        if life.account.usage is None:
            return
        timed = cast(TracedRequest, life.request).timed
        work, order = self._work(life), 0
        if life.wait is not None:
            work, order = life.wait.place.work, life.wait.place.order
        taken = charging.taken_by(life, work)
        self.queue.served(timed.tenant, timed.priority, work, taken, now, order=order)

    def room_made(self) -> None:
        """Something has happened that may have made room, or it is time."""
        if self._is_looking or (not len(self.queue) and self._looks_at == math.inf):
            return  # what is sent may be answered at once, while the queue is looked at
        self._is_looking = True
        now = self._timeline.now
        for waiting, why in self.queue.dropped(now):
            self._drop(waiting, why)
        while (waiting_next := self.queue.next(now)) is not None:
            self._send(waiting_next, now)
        self._is_looking = False
        self._plan(now)
        if len(self.queue):
            self._tell_waits()

    def _send(self, waiting: Waiting, now: float) -> None:
        owner = cast("Owner", waiting.owner)
        assert self._pool is not None
        cast(SimulatedWait, owner.life.wait).over_at = now
        owner.admitted(self._pool, now)

    def _drop(self, waiting: Waiting, dropped: Dropped) -> None:
        owner, now = cast("Owner", waiting.owner), self._timeline.now
        wait = cast(SimulatedWait, owner.life.wait)
        wait.over_at, wait.dropped_reason = now, dropped.reason
        owner.turn_away(Refusal.saturated(dropped.reason, code=dropped.reason), now)

    def _plan(self, now: float) -> None:
        at = self.queue.wake_at(now)
        if at < self._looks_at:
            self._looks_at = at
            self._timeline.at(max(at, now), lambda: self._wake(at))

    def _wake(self, at: float) -> None:
        if at == self._looks_at:
            self._looks_at = math.inf
            self.room_made()
            self._plan(self._timeline.now)

    def _work(self, life: Life) -> int:
        """Tokens that it will take, as far as anybody can know before it is picked who does it."""
        assert self._pool is not None
        scheduled, prefixes = life.decision.scheduled, self._plane.prefixes
        work = charging.work(scheduled, prefixes, self._pool.loads)
        return max(work, 1) + self._plane.answer_sizes.expected(scheduled.model, None)
