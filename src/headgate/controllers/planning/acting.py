"""Acts on a plan: replicas that are written directly, and pools that a request may start from zero."""

from __future__ import annotations

from collections.abc import Collection

from headgate import api, cluster
from headgate.controllers.autoscaling.controller import Shared
from headgate.controllers.autoscaling.following import VARIANT
from headgate.controllers.autoscaling.waking import Sleeper
from headgate.controllers.planning import actuating
from headgate.controllers.planning.settings import PlanningSettings
from headgate.controllers.planning.shares import Shares
from headgate.controllers.planning.starting import Memory
from headgate.controllers.planning.status import Found
from headgate.planning import steadiness
from headgate.planning.load import Load


class Acting:
    """Remembers what it needs of each VariantAutoscaling."""

    def __init__(self, client: cluster.Client, shared: Shared, settings: PlanningSettings) -> None:
        self._shared = shared
        self.shares = Shares(client, shared.followed.pools)
        self._settings = settings
        self._memories: dict[api.ObjectKey, Memory] = {}

    def is_fed_by(self, pool: api.ObjectRef) -> bool:
        """Whether a pool reaches any workload."""
        return any(each.kind == VARIANT for each in self._shared.waking.fed_by(pool))

    async def leave_others(self, kept: Collection[api.ObjectKey]) -> None:
        """Only these objects are still there."""
        for key in [each for each in self._memories if each not in kept]:
            await self._shared.waking.note(Sleeper(VARIANT, key), (), {})
            del self._memories[key]

    async def act(self, obj: api.VariantAutoscaling, found: Found, now: float) -> Found:
        """Write what is asked for; returns what was found with what became of that."""
        key, uid, workload = obj.metadata.key, obj.metadata.uid, found.workload
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = Memory(uid)
        if workload is None:
            await self._shared.waking.note(Sleeper(VARIANT, key), (), {})
            return found
        refused = actuating.refusal(obj, workload, self._shared.followed.claimants(workload.place))
        replicas, planned = found.current, found.planned
        if refused is not None:
            memory.window.clear()
            found = found._replace(actuated=refused)
        elif not actuating.is_direct(obj):
            memory.window.clear()
        elif planned is not None and planned.allocation is not None:
            replicas, window_s = planned.replicas, self._window_s(found)
            if replicas or not found.may_be_zero:
                replicas = memory.window.after(replicas, found.current, now, window_s)
            else:
                memory.window.clear()  # the retention was its window
            said = await actuating.write(self._shared.scaler, workload, replicas, planned.replicas, window_s)
            found = found._replace(actuated=said, current=self._shared.scaler.replicas(workload))
        else:
            found = found._replace(actuated=actuating.without_plan(workload))
        pools = found.demand.pools if found.demand is not None else ()
        noted = {}
        if found.sleeps and refused is None:
            noted = memory.notes(found.pods, found.starts, replicas)
        await self._shared.waking.note(Sleeper(VARIANT, key), pools, noted)
        return found

    def _window_s(self, found: Found) -> float:
        """How long fewer replicas must have sufficed."""
        if self._settings.window_s is not None:
            return self._settings.window_s
        return steadiness.window_s(found.load.dispersion if isinstance(found.load, Load) else 0.0)
