"""The queues of all pools of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.dataplane.queueing import making, queue_shown
from headgate.dataplane.queueing.loop_shell import LoopShell
from headgate.dataplane.queueing.queue_shown import QueueShown
from headgate.dataplane.queueing.shares import Shares
from headgate.requests.queueing.peer_shares import PeerShares
from headgate.requests.queueing.pending_report import ALONE, Place
from headgate.requests.queueing.pool_queue import PoolQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headgate.api import ObjectRef
    from headgate.dataplane.queueing.host import Host
    from headgate.dataplane.settings import DataPlaneSettings
    from headgate.fleet import EndpointState
    from headgate.flow.sharing import PoolReport, PoolShare
    from headgate.requests.pool_state import PoolState


class Queues:
    """One queue for each pool; a queue lives as long as its pool."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._shell = LoopShell(host)
        self._queueing = making.queueing(host.settings)
        self._queues: dict[ObjectRef, PoolQueue] = {}
        self._is_closed = False
        self._place = ALONE
        self._shares: Shares | None = None

    def share(self, place: Place, send: Callable[[Mapping[str, PoolReport], Collection[str]], bool]) -> None:
        """Share the queues with other workers; called before there are pools. `send` delivers reports for the
        other workers."""
        if place.workers == 1:
            return
        self._place = place
        self._shares = Shares(self._host.loop, self._queues.values, send)
        self._shares.begin_anew()

    def share_with_peers(self) -> PeerShares:
        """Share the queues with other gateways or pickers; called before there are pools."""
        self._place = Place(1, 0, has_peers=True)
        return PeerShares(self._queues.values)

    def share_anew(self) -> None:
        """The reports now go to a receiver without any state: send everything again."""
        if self._shares is not None:
            self._shares.begin_anew()

    def take_shares(self, shares: Mapping[str, PoolShare]) -> None:
        """Apply this worker's shares."""
        if self._shares is not None:
            self._shares.told(shares)

    def use(self) -> None:
        """Update to the current pools, and give each pool its queue."""
        plane, now = self._host.plane, self.now()
        pools = plane.pools
        for key in self._queues.keys() - pools.keys():
            self._queues.pop(key).remove(now)
        for key, pool in pools.items():
            queue = self._queues.get(key)
            if queue is None:
                queue = PoolQueue(plane, pool, self._queueing, self._shell, now, self._place)
                self._queues[key] = queue
                if self._is_closed:
                    queue.close(now)
            elif pool.queue is not queue:  # it is new; of thousands of endpoints, a change affects one pool
                queue.use(pool, now)
            pool.queue = queue
        self._note_sharing()

    def change(self, before: DataPlaneSettings, settings: DataPlaneSettings) -> None:
        """Apply new settings."""
        if making.decides(before) != making.decides(settings):
            self._queueing = making.queueing(settings)
            for queue in self._queues.values():
                queue.change(self._queueing, self.now())

    def learned(self, load: EndpointState) -> None:
        """An endpoint has new readings: requests that wait for it may be sent."""
        for queue in self._queues.values():
            if queue.held and queue.serves(load):
                queue.wake()

    def waits_for(self, load: EndpointState) -> bool:
        """Whether requests wait for a pool with this endpoint."""
        return any(queue.held and queue.serves(load) for queue in self._queues.values())

    def _note_sharing(self) -> None:
        """Set for each queue the queues whose pools have endpoints in common with its own."""
        pools = self._host.plane.pools.values()
        if len(set().union(*(pool.loads for pool in pools))) == sum(len(pool.loads) for pool in pools):
            for queue in self._queues.values():
                queue.sharing = (queue,)
            return
        by_load: dict[EndpointState, list[PoolQueue]] = {}
        for pool in pools:
            for load in pool.loads:
                by_load.setdefault(load, []).append(self._queues[pool.pool.key])
        sharing: dict[PoolQueue, set[PoolQueue]] = {}
        for queues in by_load.values():
            if len(queues) > 1:
                for queue in queues:
                    sharing.setdefault(queue, set()).update(queues)
        for queue in self._queues.values():
            queue.sharing = tuple(sharing.get(queue, (queue,)))

    def sweep(self) -> None:
        """Called about once a second."""
        now = self.now()
        for queue in self._queues.values():
            queue.sweep(now)

    def close(self) -> None:
        """Drop all queued requests."""
        now = self.now()
        self._is_closed = True
        if self._shares is not None:
            self._shares.stop()
        for queue in self._queues.values():
            queue.close(now)

    @property
    def held(self) -> int:
        """The number of queued requests in all queues."""
        return sum(queue.held for queue in self.all())

    def of(self, pool: PoolState) -> PoolQueue | None:
        """The queue of a pool."""
        return self._queues.get(pool.pool.key)

    def on_starved(self, call: Callable[[], object]) -> None:
        """Call this at once when a request arrives for a pool without endpoints, whether it waits or was
        rejected; for each pool at most once a second. `DataPlane.waiting_for_endpoints` has the pools."""
        self._shell.observer.on_starved = call

    def shown(self) -> dict[str, list[QueueShown]]:
        """The queues by pool name, for `/debug/flow`."""
        now = self.now()
        return {queue.name: [queue_shown.shown(queue, now)] for queue in self.all()}

    def now(self) -> float:
        """The time used by the queues."""
        return self._host.now()

    def all(self) -> list[PoolQueue]:
        return list(self._queues.values())
