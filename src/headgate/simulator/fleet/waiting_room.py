"""Where requests wait for their turn, in front of the fleet: the gateway's own queue in virtual time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from headgate import fleet, routing
from headgate.fleet import EndpointState
from headgate.fleet.prefix import PrefixIndex
from headgate.flow import capacity
from headgate.flow.queue import FlowQueue, FlowSettings, Usage, Waiting
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.model import FinishedRequest


class WaitingRoom:
    """Sends flights when it is their turn, and tells of those that have none."""

    def __init__(
        self,
        settings: FlowSettings,
        room: capacity.CapacitySettings,
        rng: random.Random,
        timeline: Timeline,
        prefixes: PrefixIndex,
        send: Callable[[Flight], None],
        dropped: Callable[[Flight, str], None],
        waits: Callable[[], None],
    ) -> None:
        """`waits` is told, after each look at the queue, if any wait still."""
        self._tell_waits = waits
        self.queue = FlowQueue(settings, capacity.make(room), rng)
        self._timeline = timeline
        self._prefixes = prefixes
        self._send = send
        self._tell_dropped = dropped
        self._answers = fleet.AnswerSizes()
        self._pool: Sequence[EndpointState] = ()
        self._is_looking = False
        self._looks_at = math.inf

    def follow(self, pool: Sequence[EndpointState], phases: routing.PrefillDecode | None) -> None:
        """Which endpoints there are from now on."""
        self._pool = pool
        self.queue.capacity.follow(pool, phases)
        self.look()

    def arrive(self, flight: Flight) -> None:
        """A request comes, and is sent at once or later, or is refused."""
        timed, now, settings = flight.timed, self._timeline.now, self.queue.settings
        flight.work = self._work(flight)
        if self.queue.passes(timed.priority, now):
            self._send(flight)
            return
        waiting = Waiting(
            flight,
            flow=timed.tenant,
            priority=timed.priority,
            work=flight.work,
            size=4 * timed.prompt_tokens,
            arrived=now,
            deadline=now + settings.ttl_s if settings.ttl_s else math.inf,
        )
        refused = self.queue.enter(waiting, now)
        flight.order = waiting.order
        if refused is not None:
            self._tell_dropped(flight, refused.reason)
        self.look()

    def ended(self, flight: Flight, finished: FinishedRequest | None) -> None:
        """A request that was sent is over."""
        if finished is None:
            return
        self._answers.learn(flight.scheduled.model, finished.output_tokens)
        usage = Usage(
            prompt_tokens=flight.timed.prompt_tokens,
            output_tokens=finished.output_tokens,
            cached_tokens=finished.cached_tokens,
        )
        timed = flight.timed
        now = self._timeline.now
        self.queue.served(timed.tenant, timed.priority, flight.work, usage, now, order=flight.order)

    def look(self) -> None:
        """Something has happened that may have made room, or it is time."""
        if self._is_looking or (not len(self.queue) and self._looks_at == math.inf):
            return  # what is sent may be answered at once, while the queue is looked at
        self._is_looking = True
        now = self._timeline.now
        for waiting, why in self.queue.dropped(now):
            assert isinstance(waiting.owner, Flight)
            self._tell_dropped(waiting.owner, why.reason)
        while (waiting_next := self.queue.next(now)) is not None:
            assert isinstance(waiting_next.owner, Flight)
            self._send(waiting_next.owner)
        self._is_looking = False
        self._plan(now)
        if len(self.queue):
            self._tell_waits()

    def _plan(self, now: float) -> None:
        at = self.queue.wake_at(now)
        if at < self._looks_at:
            self._looks_at = at
            self._timeline.at(max(at, now), lambda: self._wake(at))

    def _wake(self, at: float) -> None:
        if at == self._looks_at:
            self._looks_at = math.inf
            self.look()
            self._plan(self._timeline.now)

    def _work(self, flight: Flight) -> int:
        """Tokens that it will take, as far as anybody can know before it is picked who does it."""
        request = flight.scheduled
        cached = 0
        if request.prefix and self._pool:
            cached = request.tokens_in(max(self._prefixes.matched(request.prefix, self._pool)))
        return max(request.prompt_tokens - cached, 1) + self._answers.expected(request.model, None)
