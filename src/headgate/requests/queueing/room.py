"""Whether a pool has capacity for another request, by the endpoints that may get requests now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headgate.engines import transfer
from headgate.flow import capacity
from headgate.flow.capacity import Stages

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.flow.configuration import Queueing
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.shell import QueueObserver

WANTED_S: Final = 1.0


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
        """Requests in flight from other workers, as a fraction of the pool's capacity."""
        self._counts_on_all = True
        """Whether every endpoint of the pool counts, that is, may get requests."""
        self._is_starved = False
        """Whether requests are queued because there is no endpoint."""
        self.wanted_at: float | None = None
        """When a request last arrived, within a second, while there was no endpoint; None since there is
        one."""
        self.ready_at = now
        """When the pool last got its first endpoint."""
        self.change(queueing, now)

    def change(self, queueing: Queueing, now: float) -> None:
        """Apply new settings."""
        self.detector = queueing.capacity.detector
        """Name of the detector that decides whether there is capacity."""
        self.capacity = capacity.make(queueing.capacity, self._plane.rules.max_requests)
        self.capacity.take_share(self._share)
        self.refresh_endpoints(now)

    def take_share(self, share: float, elsewhere: float) -> None:
        """Set this worker's fraction of the capacity, and the fraction in use by other workers."""
        self._share, self._elsewhere = share, elsewhere
        self.capacity.take_share(share)

    @property
    def share(self) -> float:
        """This worker's fraction of the capacity."""
        return self._share

    def fullness(self, now: float) -> float | None:
        """Requests in flight from this worker, as a fraction of the pool's capacity; None if they are not
        counted."""
        return self.capacity.fullness(now)

    def use(self, pool: PoolState, now: float) -> None:
        """Use the pool of a new snapshot."""
        self._pool = pool
        self.refresh_endpoints(now)

    def refresh_endpoints(self, now: float) -> None:
        """Count the endpoints that would be picked now. One that failed recently has no capacity, unless
        there is no other."""
        pool = self._pool
        answering = self.answering()
        loads = pool.loads if answering else ()
        if pool.pool.start is not None and not _can_serve(pool, answering, now):
            loads = ()  # requests wait as they do for a start
        able = [load for load in loads if load.suspect_until <= now]
        if 2 * len(able) < len(loads):  # returning endpoints get their share of requests immediately
            able = [load for load in loads if load.away_until <= now and not load.avoided(now)]
        counts_on_all = pool.pairs is not None or len(able) in (0, len(loads))
        counted = loads if counts_on_all else able
        self._counts_on_all = counts_on_all and len(loads) == (len(pool.loads) if answering else 0)
        is_counted = set(counted)
        resting = [load for load in pool.loads if load not in is_counted]
        was_empty = self.is_empty
        self.capacity.follow(counted, pool.pool.phases, resting)
        if was_empty and not self.is_empty:
            self.ready_at, self.wanted_at = now, None

    def sweep(self, now: float) -> None:
        """Recheck failed endpoints: nothing reports when one comes back."""
        if not self._counts_on_all:
            self.refresh_endpoints(now)

    def answering(self) -> Sequence[EndpointState]:
        """The endpoints that generate responses: those that decode if prefill is separate, else all."""
        pool = self._pool
        return pool.loads if pool.pairs is None else pool.pairs.decode

    @property
    def is_empty(self) -> bool:
        """Whether no endpoint could respond."""
        return self.capacity.is_empty()

    def note_arrival(self, now: float) -> None:
        """Report, at most once a second, that requests arrive while there is no endpoint."""
        if self.is_empty and (self.wanted_at is None or now - self.wanted_at >= WANTED_S):
            self.wanted_at = now
            self._observer.wanted(self._pool)

    def note_starvation(self, held: int, wait_s: float) -> None:
        """Report when requests begin to wait for an endpoint, and when one has come."""
        is_starved = held > 0 and self.is_empty
        if is_starved and not self._is_starved:
            self._observer.starves(self._pool, wait_s)
        elif self._is_starved and not self.is_empty:
            self._observer.recovers(self._pool)
        self._is_starved = is_starved

    def why_full(self, priority: int, now: float) -> str:
        """Why a request of this priority has to wait; empty if there is capacity."""
        if self.capacity.has_room(priority, now):
            return ""
        return f"the pool has no capacity: {self.capacity.why_full(priority, now)}"

    def saturation(self, now: float) -> Mapping[str, float]:
        """Fullness of the pool; from 1 on it has no capacity. Includes its stages, if any, by this worker's
        requests."""
        stages = self.capacity.by_stage(now) if isinstance(self.capacity, Stages) else {}
        fullness = self.fullness(now)
        if self._share == 1.0 or fullness is None:
            return {**stages, "all": self.capacity.saturation(now)}
        of_all = {name: saturation * self._share for name, saturation in stages.items()}
        return {**of_all, "all": fullness + self._elsewhere}

    def stale_endpoints(self, now: float) -> int:
        """Endpoints whose readings are too old for the detector."""
        return self.capacity.stale(now)


def _can_serve(pool: PoolState, answering: Sequence[EndpointState], now: float) -> bool:
    """Whether any endpoint can be reached, with another one that prefills for it if it needs that."""
    phases, pairs = pool.pool.phases, pool.pairs
    reached = [load for load in answering if not load.is_unreachable(now)]
    if phases is None or pairs is None or transfer.connector(phases.connector).decodes_alone:
        return bool(reached)
    return any(not other.is_unreachable(now) for load in reached for other in pairs.prefill_of(load))
