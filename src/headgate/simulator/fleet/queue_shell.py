"""What drives the gateway's queue in virtual time: an alarm on the timeline, and the requests of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headgate.requests.queueing.hints import QueueHints

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.wait import Wait
    from headgate.simulator.fleet.request import TracedRequest
    from headgate.simulator.fleet.timeline import Timeline

BYTES_PER_TOKEN = 4


class VirtualShell:
    """The `QueueShell` of the one queue of a run."""

    def __init__(self, timeline: Timeline, looked: Callable[[], None]) -> None:
        """`looked` is told when the queue has sent all that may go."""
        self._timeline = timeline
        self._looked = looked
        self.observer = Unrecorded()

    def alarm(self, look: Callable[[float], None]) -> VirtualAlarm:
        return VirtualAlarm(self._timeline, look, self._looked)

    def hints(self, life: Life, flow_header: bytes) -> QueueHints:
        """The tenants of a trace are the flows."""
        return QueueHints(flow=cast("TracedRequest", life.request).timed.tenant)

    def size(self, life: Life) -> int:
        return BYTES_PER_TOKEN * cast("TracedRequest", life.request).timed.prompt_tokens


class VirtualAlarm:
    """Looks within the call that wakes it: nothing else happens at that moment of virtual time."""

    __slots__ = ("_at", "_is_looking", "_is_woken", "_look", "_looked", "_planned_at", "_timeline")

    def __init__(self, timeline: Timeline, look: Callable[[float], None], looked: Callable[[], None]) -> None:
        self._timeline = timeline
        self._look = look
        self._looked = looked
        self._is_woken = False
        self._is_looking = False
        self._at = math.inf
        """When to look at the latest."""
        self._planned_at = math.inf
        """The first action on the timeline, which cannot be taken off it, and may be too early by now."""

    def wake(self) -> None:
        """At once; while the queue looks, as soon as it has: what is sent may be answered meanwhile."""
        self._is_woken = True
        if self._is_looking:
            return
        self._is_looking = True
        while self._is_woken:
            self._look(self._timeline.now)
        self._is_looking = False
        self._looked()

    def wake_at(self, at: float, now: float) -> None:
        self._at = at
        self._plan()

    def stop(self) -> None:
        self._is_woken = False
        self._at = math.inf

    def _plan(self) -> None:
        if self._at < self._planned_at:
            self._planned_at = at = self._at
            self._timeline.at(max(at, self._timeline.now), lambda: self._ring(at))

    def _ring(self, planned_at: float) -> None:
        if planned_at != self._planned_at:
            return  # another action has come before it
        self._planned_at = math.inf
        if self._at <= self._timeline.now:
            self.wake()
        else:
            self._plan()


class Unrecorded:
    """The `QueueObserver`: records of requests have what a run tells of its queue."""

    def begins(self) -> float:
        return 0.0

    def entered(self, pool: PoolState, place: Waiting, outcome: str, began: float) -> None: ...
    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None: ...
    def evicted(self, pool: PoolState, priority: int) -> None: ...
    def looked(self, began: float) -> None: ...
    def wanted(self, pool: PoolState) -> None: ...
    def starves(self, pool: PoolState, wait_s: float) -> None: ...
    def recovers(self, pool: PoolState) -> None: ...
    def failed(self, pool: PoolState, what: str) -> None:
        """A fault of the simulator ends the run."""
        raise
