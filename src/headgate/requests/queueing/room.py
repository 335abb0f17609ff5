"""Whether a pool has room for one more request, by those of its endpoints that requests may go to now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.flow import capacity
from headgate.flow.capacity import Stages

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.flow.configuration import Queueing
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.shell import QueueObserver


class PoolRoom:
    """Capacity of one pool, updated on every snapshot, endpoint failure and settings change."""

    def __init__(
        self,
        plane: DataPlane,
        pool: PoolState,
        queueing: Queueing,
        observer: QueueObserver,
        share: float,
        now: float,
    ) -> None:
        """`share`: the fraction of the pool's capacity that this worker may use."""
        self._plane = plane
        self._observer = observer
        self._pool = pool
        self._share = share
        self._elsewhere = 0.0
        """What other workers have in flight, as a share of all the room."""
        self._counts_on_all = True
        """Whether requests may go to each of the pool's endpoints."""
        self._is_starved = False
        """Whether requests wait because there is no endpoint."""
        self.change(queueing, now)

    def change(self, queueing: Queueing, now: float) -> None:
        """Goes on by other settings."""
        self.detector = queueing.capacity.detector
        """Which one says whether there is room."""
        self.capacity = capacity.make(queueing.capacity, self._plane.rules.max_requests)
        self.capacity.take_share(self._share)
        self.refresh_endpoints(now)

    def take_share(self, share: float, elsewhere: float) -> None:
        """This worker has so much of the room from now on, and others take so much of it."""
        self._share, self._elsewhere = share, elsewhere
        self.capacity.take_share(share)

    @property
    def share(self) -> float:
        """This worker's of all the room."""
        return self._share

    def fullness(self, now: float) -> float | None:
        """What this worker has in flight, as a share of all the room; None where that is not counted."""
        return self.capacity.fullness(now)

    def use(self, pool: PoolState, now: float) -> None:
        """The pool as a new snapshot has it."""
        self._pool = pool
        self.refresh_endpoints(now)

    def refresh_endpoints(self, now: float) -> None:
        """Counts on the endpoints that would be picked now: one that failed lately has no room for anybody,
        unless there is no other."""
        pool = self._pool
        loads = pool.loads if self.answering() else ()
        able = [load for load in loads if load.suspect_until <= now]
        if 2 * len(able) < len(loads):  # those that return have their share of the requests at once
            able = [load for load in loads if load.away_until <= now and not load.avoided(now)]
        self._counts_on_all = pool.pairs is not None or len(able) in (0, len(loads))
        counted = loads if self._counts_on_all else able
        resting = [load for load in pool.loads if load not in counted]
        self.capacity.follow(counted, pool.pool.phases, resting)

    def sweep(self, now: float) -> None:
        """An endpoint may have come back from its failures, of which nothing else tells."""
        if not self._counts_on_all:
            self.refresh_endpoints(now)

    def answering(self) -> Sequence[EndpointState]:
        """The endpoints that answer, where others prefill; or all."""
        pool = self._pool
        return pool.loads if pool.pairs is None else pool.pairs.decode

    @property
    def is_empty(self) -> bool:
        """Whether there is no endpoint that could answer."""
        return self.capacity.is_empty()

    def note_starvation(self, held: int, wait_s: float) -> None:
        """Reports when requests begin to wait for an endpoint, and when one has come."""
        is_starved = held > 0 and self.is_empty
        if is_starved and not self._is_starved:
            self._observer.starves(self._pool, wait_s)
        elif self._is_starved and not self.is_empty:
            self._observer.recovers(self._pool)
        self._is_starved = is_starved

    def why_full(self, priority: int, now: float) -> str:
        """What keeps a request of this priority; empty if there is room."""
        if self.capacity.has_room(priority, now):
            return ""
        return f"the pool has no room: {self.capacity.why_full(priority, now)}"

    def saturation(self, now: float) -> Mapping[str, float]:
        """How full the pool is; from 1 on there is no room. And its stages, where it has any: these by what
        this worker has."""
        stages = self.capacity.by_stage(now) if isinstance(self.capacity, Stages) else {}
        fullness = self.fullness(now)
        if self._share == 1.0 or fullness is None:
            return {**stages, "all": self.capacity.saturation(now)}
        of_all = {name: saturation * self._share for name, saturation in stages.items()}
        return {**of_all, "all": fullness + self._elsewhere}

    def stale_endpoints(self, now: float) -> int:
        """Those of which the detector knows nothing fresh that it would go by."""
        return self.capacity.stale(now)
