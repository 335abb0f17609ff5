"""Which pools a request may start from zero, and for which objects: annotations tell gateways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from headgate import api, cluster
from headgate.controllers.autoscaling import starts
from headgate.controllers.autoscaling.pools import Pools, ref_of


class Sleeper(NamedTuple):
    """An object that scales workloads, also to zero."""

    kind: str
    key: api.ObjectKey


class Waking:
    """Keeps the annotations of pools as the objects want them whose workloads the pools reach."""

    def __init__(self, client: cluster.Client, pools: Pools) -> None:
        self._known = pools
        self._notes = starts.PoolNotes(client)
        self._wanted: defaultdict[api.ObjectRef, dict[Sleeper, dict[str, str]]] = defaultdict(dict)
        self._pools: dict[Sleeper, frozenset[api.ObjectRef]] = {}

    def fed_by(self, pool: api.ObjectRef) -> Collection[Sleeper]:
        """The objects whose workloads a pool reaches."""
        return tuple(self._wanted.get(pool, ()))

    def pools_of(self, sleeper: Sleeper) -> Collection[api.ObjectRef]:
        """The pools that reach its workloads."""
        return self._pools.get(sleeper, frozenset())

    async def note(self, sleeper: Sleeper, pools: Collection[api.ObjectRef], noted: dict[str, str]) -> None:
        """Set the pools that reach its workloads, and the annotations that they are to have, if any. Raises
        ApiError other than NotFound and Conflict."""
        before = self._pools.get(sleeper, frozenset())
        for pool in pools:
            self._wanted[pool][sleeper] = noted
        for pool in before.difference(pools):
            self._wanted[pool].pop(sleeper, None)
            if not self._wanted[pool]:
                del self._wanted[pool]
        if pools:
            self._pools[sleeper] = frozenset(pools)
        else:
            self._pools.pop(sleeper, None)
        for pool in before.union(pools):
            known = self._known.get(pool)
            if known is not None:
                each = [wanted for wanted in self._wanted.get(pool, {}).values() if wanted]
                await self._notes.write(known, each[0] if each else {})

    async def sweep(self) -> None:
        """Remove annotations of pools that no object reaches: it may have gone while nobody looked."""
        for pool in list(self._known.all()):
            if ref_of(pool) not in self._wanted:
                await self._notes.write(pool, {})
