"""One pass: what there is, the loads, and a plan for all variants together."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from headgate import api
from headgate.controllers.autoscaling.controller import Shared
from headgate.controllers.autoscaling.pools import is_to_serve
from headgate.controllers.autoscaling.workloads import Scalable, Workload
from headgate.controllers.planning import assembling, variants
from headgate.controllers.planning.assembling import Group, Member, Planned
from headgate.controllers.planning.gateway_loads import GatewayLoads
from headgate.controllers.planning.loads import Collector, Demand
from headgate.controllers.planning.settings import PlanningSettings
from headgate.controllers.planning.status import Found
from headgate.controllers.planning.variants import Problem, Variant
from headgate.planning import Sizer, solving
from headgate.planning.config_maps import Configuration
from headgate.planning.load import Load, LoadFilter, Missing

log = logging.getLogger(__name__)

_LIMIT_S = 10.0
"""For the solver."""
_RISEN, _RISEN_PER_S = 1.2, 0.2
"""A load has risen if it is larger by this factor, and by so many requests per second."""


class Passes:
    """Plans for given objects, and remembers the loads that it planned for."""

    def __init__(
        self, shared: Shared, settings: PlanningSettings, collector: Collector | None = None
    ) -> None:
        self._shared = shared
        self._settings = settings
        self._gateways = GatewayLoads(shared.signals)
        self._collector = collector or self._gateways
        self._sizer = Sizer()
        self._selected: dict[Workload, Scalable] = {}
        """Workloads whose Pods are followed."""
        self._filters: dict[str, LoadFilter] = {}
        """By the names of demands."""
        self._planned_for: dict[str, tuple[Demand, Load | Missing]] = {}

    async def run(
        self, objects: Collection[api.VariantAutoscaling], configuration: Configuration
    ) -> dict[api.ObjectKey, Found]:
        """What is to be said of each object."""
        found: dict[api.ObjectKey, Found] = {}
        by_demand: defaultdict[tuple[str, str, str], list[tuple[Variant, Scalable]]] = defaultdict(list)
        for obj in objects:
            key = obj.metadata.key
            variant = variants.variant_of(obj, configuration, self._settings.namespace)
            workload = self._shared.followed.workload_of_variant(key)
            current = self._shared.scaler.replicas(workload) if workload is not None else 0
            found[key] = Found(variant, workload, current)
            if workload is not None and not isinstance(variant, Problem):
                by_demand[key.namespace, variant.spec.model_id, variant.class_key].append((variant, workload))
        self._select([each.workload for each in found.values() if each.workload is not None])
        demands = [self._demand(key, members) for key, members in by_demand.items()]
        told = await asyncio.gather(*(self._collector.collect(each) for each in demands))
        self._filters = {each.name: self._filters.get(each.name) or LoadFilter() for each in demands}
        loads = [self._steady(demand, load) for demand, load in zip(demands, told, strict=True)]
        self._planned_for = {each.name: (each, load) for each, load in zip(demands, loads, strict=True)}
        groups: list[Group] = []
        for demand, load, members in zip(demands, loads, by_demand.values(), strict=True):
            zero = configuration.scale_to_zero_of(demand.model)
            idle_s = self._gateways.idle_s(demand)
            is_over = zero.is_enabled and idle_s is not None and idle_s >= zero.retention_s
            for variant, _ in members:
                found[variant.key] = found[variant.key]._replace(
                    load=load, demand=demand, sleeps=zero.is_enabled, may_be_zero=is_over
                )
            if isinstance(load, Load):
                groups.append(self._group(demand, load, members, is_over))
        held = {obj.metadata.key: _desired(obj) for obj in objects}
        await self._solve(groups, held, found)
        return found

    def has_risen(self) -> bool:
        """Whether a load is now clearly more than was planned for, or known at last. To be asked about once
        a second: noise is told from change by what was measured meanwhile."""
        if self._collector is not self._gateways:
            return False
        for demand, before in self._planned_for.values():
            now = self._steady(demand, self._gateways.now(demand))
            if isinstance(now, Missing):
                continue
            if isinstance(before, Missing):
                return True
            more = now.arrivals_per_s - before.arrivals_per_s
            if more > _RISEN_PER_S and now.arrivals_per_s > _RISEN * before.arrivals_per_s:
                return True
        return False

    def _steady(self, demand: Demand, load: Load | Missing) -> Load | Missing:
        """The load to plan for: changes of it without noise."""
        if isinstance(load, Missing) or demand.name not in self._filters:
            return load
        return self._filters[demand.name].add(load, asyncio.get_running_loop().time())

    def _select(self, workloads: Sequence[Scalable]) -> None:
        """Follow the Pods of these alone."""
        wanted = {each.place: each for each in workloads}
        for place in [each for each in self._selected if each not in wanted]:
            self._shared.followed.select_for_variant(place, None)
            del self._selected[place]
        for place, workload in wanted.items():
            before = self._selected.get(place)
            if before is None or before.spec != workload.spec:
                self._shared.followed.select_for_variant(place, workload)
            self._selected[place] = workload

    def _demand(self, key: tuple[str, str, str], members: Sequence[tuple[Variant, Scalable]]) -> Demand:
        pools = self._shared.followed.pools
        own = [workload.members for _, workload in members]
        shares: dict[api.ObjectRef, float | None] = {}
        for _, workload in members:
            for pool in pools.of(workload):
                if pool not in shares:
                    shares[pool] = pools.share(pool, own)
        return Demand(*key, pools=shares)

    def _group(
        self, demand: Demand, load: Load, members: Sequence[tuple[Variant, Scalable]], may_be_zero: bool
    ) -> Group:
        if may_be_zero:
            load = msgspec.structs.replace(load, arrivals_per_s=0.0)
        return Group(demand, load, may_be_zero, [self._member(*each) for each in members])

    def _member(self, variant: Variant, workload: Scalable) -> Member:
        pods = self._shared.followed.pods_of_variant(workload)
        ready = sum(pod.ready for pod in pods if is_to_serve(pod))
        return Member(variant, self._shared.scaler.replicas(workload), ready)

    async def _solve(
        self,
        groups: Sequence[Group],
        held: Mapping[api.ObjectKey, int | None],
        found: dict[api.ObjectKey, Found],
    ) -> None:
        if not groups:
            return

        def kept(member: Member) -> int:
            before = held[member.variant.key]
            return member.current if before is None else before

        def solve() -> dict[api.ObjectKey, Planned]:
            system = assembling.assemble(groups)
            solution = solving.exactly(system, self._settings.percentile, limit_s=_LIMIT_S, sizer=self._sizer)
            return assembling.planned(groups, solution, kept)

        try:
            plans = await asyncio.to_thread(solve)
        except Exception as error:
            log.exception("planning failed")
            for group in groups:
                for member in group.members:
                    key = member.variant.key
                    found[key] = found[key]._replace(failure=f"planning failed: {error}"[:1024])
            return
        for key, plan in plans.items():
            found[key] = found[key]._replace(planned=plan)


def _desired(obj: api.VariantAutoscaling) -> int | None:
    before = obj.status.desired_optimized_alloc if obj.status is not None else None
    return before.num_replicas if before is not None else None
