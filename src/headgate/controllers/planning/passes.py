"""One pass: what there is, the loads, and a plan for all variants together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from headgate import api
from headgate.controllers.autoscaling.controller import Shared
from headgate.controllers.autoscaling.pools import is_to_serve
from headgate.controllers.autoscaling.workloads import Scalable, Workload
from headgate.controllers.planning import deciding
from headgate.controllers.planning.collecting import Loads, Server
from headgate.controllers.planning.deciding import Decisions, Member
from headgate.controllers.planning.learning import Learning
from headgate.controllers.planning.loads import Demand
from headgate.controllers.planning.prometheus_loads import PrometheusLoads
from headgate.controllers.planning.settings import PlanningSettings
from headgate.controllers.planning.starting import StartTimes
from headgate.controllers.planning.status import Found
from headgate.planning import Sizer, assembling, solving
from headgate.planning.assembling import Assembly, Group
from headgate.planning.config_maps import Configuration
from headgate.planning.load import Load
from headgate.planning.problem import MAX_REPLICAS
from headgate.planning.replica import Profile
from headgate.planning.settings_map import PrometheusSettings
from headgate.planning.variants import Variant

log = logging.getLogger(__name__)

_LIMIT_S: Final = 10.0
"""For the solver."""


class Passes:
    """Plans for given objects."""

    def __init__(
        self,
        shared: Shared,
        settings: PlanningSettings,
        clock: Callable[[], float],
        prometheus_of: Callable[[PrometheusSettings], Server] = PrometheusLoads,
    ) -> None:
        self._shared = shared
        self._settings = settings
        self.loads = Loads(shared.signals, prometheus_of)
        self.learning = Learning()
        self._starts = StartTimes()
        self._clock = clock
        self._sizer = Sizer()
        self._selected: dict[Workload, Scalable] = {}
        """Workloads whose Pods are followed."""

    async def run(
        self,
        objects: Collection[api.VariantAutoscaling],
        configuration: Configuration,
        limits: Mapping[str, int] | None = None,
    ) -> dict[api.ObjectKey, Found]:
        """What is to be said of each object. `limits` are accelerators by type; None: there are always
        enough."""
        now = self._clock()
        workloads = {key: self._shared.followed.workload_of_variant(key) for key in _keys(objects)}
        self._select([each for each in workloads.values() if each is not None])
        self._starts.keep_only(workloads)
        found = {
            key: self._found(obj, workloads[key], configuration, now)
            for key, obj in zip(workloads, objects, strict=True)
        }
        demands = self._demands(found)
        await self.loads.use(configuration.prometheus)
        loads = await self.loads.collect(list(demands.values()))
        over = await self._over(demands, configuration)
        for key, each in found.items():
            group = each.variant.group
            if each.workload is not None:
                found[key] = each._replace(
                    load=loads[group],
                    demand=demands[group],
                    sleeps=configuration.scale_to_zero_of(group[0]).is_enabled,
                    may_be_zero=group in over,
                )
        self.learning.observe(found, self.loads.measured, now)
        profiles = {
            obj.metadata.key: learned
            for obj in objects
            if (learned := self.learning.profile_of(obj, found[obj.metadata.key].variant)) is not None
        }
        assembly = _assembled(found, configuration, limits, over, profiles)
        for key, problems in assembly.problems.items():
            found[key] = found[key]._replace(problems=problems)
        await self._solve(assembly, [_member(obj, found[obj.metadata.key]) for obj in objects], found)
        return found

    async def _over(self, demands: Mapping[Group, Demand], configuration: Configuration) -> set[Group]:
        """The models that need no replicas, as their last request was too long ago."""
        zero = {group: configuration.scale_to_zero_of(group[0]) for group in demands}
        sleeping = [group for group in demands if zero[group].is_enabled]
        found = await asyncio.gather(
            *(self.loads.is_over(demands[group], zero[group].retention_s) for group in sleeping)
        )
        return {group for group, is_over in zip(sleeping, found, strict=True) if is_over}

    def _found(
        self,
        obj: api.VariantAutoscaling,
        workload: Scalable | None,
        configuration: Configuration,
        now: float,
    ) -> Found:
        variant = Variant.of(obj)
        accelerator = configuration.accelerators.get(variant.accelerator)
        price = accelerator.cost * variant.count if accelerator is not None else None
        if workload is None:
            return Found(variant, None, price=price)
        pods = [each for each in self._shared.followed.pods_of_variant(workload) if is_to_serve(each)]
        starts = self._starts.learn(obj, workload, pods, now)
        return Found(variant, workload, self._shared.scaler.replicas(workload), pods, starts, price)

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

    def _demands(self, found: Mapping[api.ObjectKey, Found]) -> dict[Group, Demand]:
        """Of all models in all namespaces with a workload."""
        members: defaultdict[Group, list[Found]] = defaultdict(list)
        for each in found.values():
            if each.workload is not None:
                members[each.variant.group].append(each)
        return {group: self._demand(group, own) for group, own in members.items()}

    def _demand(self, group: Group, members: Sequence[Found]) -> Demand:
        pools = self._shared.followed.pools
        workloads = [each.workload for each in members if each.workload is not None]
        own = [each.members for each in workloads]
        shares: dict[api.ObjectRef, float | None] = {}
        for workload in workloads:
            for pool in pools.of(workload):
                if pool not in shares:
                    shares[pool] = pools.share(pool, own)
        return Demand(
            *group,
            pools=shares,
            replicas=sum(each.current for each in members),
            start_s=max(each.starts.expected_s or 0.0 for each in members),
        )

    async def _solve(
        self, assembly: Assembly, members: Sequence[Member], found: dict[api.ObjectKey, Found]
    ) -> None:
        if not assembly.planned:
            return

        def solve() -> Decisions:
            return assembly.decisions(
                solving.exactly(
                    assembly.system,
                    self._settings.percentile,
                    limit_s=_LIMIT_S,
                    sizer=self._sizer,
                    clock=time.monotonic,
                )
            )

        try:
            decisions = await asyncio.to_thread(solve)
        except Exception as error:
            log.exception("planning failed")
            for key in assembly.planned:
                found[key] = found[key]._replace(failure=f"planning failed: {error}"[:1024])
            return
        for key, plan in deciding.planned(members, decisions).items():
            found[key] = found[key]._replace(planned=plan)


def _assembled(
    found: Mapping[api.ObjectKey, Found],
    configuration: Configuration,
    limits: Mapping[str, int] | None,
    over: Collection[Group],
    profiles: Mapping[api.ObjectKey, Profile],
) -> Assembly:
    """Variants without a workload are in no system, but have their problems."""
    loads: dict[Group, Load] = {}
    for each in found.values():
        if isinstance(each.load, Load):
            group = each.variant.group
            loads[group] = (
                msgspec.structs.replace(each.load, arrivals_per_s=0.0) if group in over else each.load
            )
    there = {key: each for key, each in found.items() if each.workload is not None}
    assembly = assembling.assemble(
        [each.variant for each in there.values()],
        configuration,
        replicas={key: min(each.current, MAX_REPLICAS) for key, each in there.items()},
        loads=loads,
        limits=limits,
        placed={key: sum(map(_is_placed, each.pods)) for key, each in there.items()},
        in_use=loads.keys() - over,
        profiles=profiles,
    )
    missing = [each.variant for key, each in found.items() if key not in there]
    others = assembling.assemble(missing, configuration, replicas={}, loads={})
    return msgspec.structs.replace(assembly, problems={**assembly.problems, **others.problems})


def _keys(objects: Collection[api.VariantAutoscaling]) -> list[api.ObjectKey]:
    return [each.metadata.key for each in objects]


def _is_placed(pod: api.Pod) -> bool:
    """Whether it has a Node, and so accelerators."""
    scheduled = any(each.type == "PodScheduled" and each.status == "True" for each in pod.status.conditions)
    return scheduled or pod.ready or pod.status.phase == "Running"


def _member(obj: api.VariantAutoscaling, found: Found) -> Member:
    return Member(found.variant, found.current, sum(each.ready for each in found.pods), _desired(obj))


def _desired(obj: api.VariantAutoscaling) -> int | None:
    before = obj.status.desired_optimized_alloc if obj.status is not None else None
    return before.num_replicas if before is not None else None
