"""One system of all variants that can be planned, and back to each variant. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate import api
from headgate.controllers.planning.loads import Demand
from headgate.controllers.planning.variants import Variant
from headgate.planning import system
from headgate.planning.load import Load
from headgate.planning.problem import MAX_REPLICAS
from headgate.planning.solving import Allocation, Solution
from headgate.planning.system import Optimizer, Server, System

_DIGITS: Final = 3
"""Of mean lengths: more of them only change with every request."""


class Member(NamedTuple):
    """A variant with what there is of it."""

    variant: Variant
    current: int
    """Replicas that it has to have."""
    ready: int


class Group(NamedTuple):
    """All variants of a demand."""

    demand: Demand
    load: Load
    may_be_zero: bool
    """Whether no replica at all is needed without requests."""
    members: Sequence[Member]


class Planned(NamedTuple):
    """What was planned for a variant."""

    replicas: int
    allocation: Allocation | None = None
    """None: it cannot be served."""
    failure: str = ""


def assemble(groups: Sequence[Group]) -> System:
    """Each variant is an accelerator of its own to the solver, as it has its own profile: two variants of a
    model may differ in no more than that."""
    accelerators, performance, servers = {}, {}, {}
    classes: dict[str, system.ServiceClass] = {}
    for group in groups:
        kept = _kept(group)
        for index, member in enumerate(group.members):
            variant = member.variant
            name, model = variant.name, variant.spec.model_id
            accelerators[name] = msgspec.structs.replace(
                variant.accelerator, name=name, type=variant.accelerator.kind
            )
            performance[model, name] = msgspec.structs.replace(variant.performance, acc=name)
            classes[variant.class_key] = variant.service_class
            servers[name] = Server(
                name=name,
                class_=variant.class_key,
                model=model,
                keep_accelerator=True,
                min_num_replicas=1 if variant.key in kept else 0,
                demand=group.demand.name,
                current_alloc=system.AllocationData(
                    accelerator=name,
                    num_replicas=min(member.current, MAX_REPLICAS),
                    cost=variant.replica_cost * member.current,
                    load=_load(group.load) if not index else system.Load(),
                ),
            )
    return System(
        accelerators=accelerators,
        performance=performance,
        classes=classes,
        servers=servers,
        optimizer=Optimizer(unlimited=True),
    )


def planned(
    groups: Sequence[Group], solution: Solution, held: Callable[[Member], int]
) -> dict[api.ObjectKey, Planned]:
    """Replicas of each variant. `held` are those that were wanted before, for variants that cannot be
    served."""
    found: dict[api.ObjectKey, Planned] = {}
    for group in groups:
        own = {each.variant.name: solution.allocations.get(each.variant.name) for each in group.members}
        for member in group.members:
            variant = member.variant
            allocation = own[variant.name]
            if allocation is None:
                why = solution.unserved.get(variant.name, "it has no allocation")
                found[variant.key] = Planned(held(member), None, _named(why, variant))
                continue
            replicas = allocation.num_replicas
            if replicas < member.current and _others_start(group.members, own, member):
                replicas = member.current  # until these take over
            found[variant.key] = Planned(replicas, allocation)
    return found


def _kept(group: Group) -> Collection[api.ObjectKey]:
    """Variants that keep a replica whatever the load: the only one, or without requests the cheapest."""
    if group.may_be_zero:
        return ()
    if len(group.members) == 1:
        return (group.members[0].variant.key,)
    if group.load.arrivals_per_s:
        return ()
    cheapest = min(group.members, key=lambda each: (each.variant.replica_cost, each.variant.key))
    return (cheapest.variant.key,)


def _others_start(members: Sequence[Member], own: Mapping[str, Allocation | None], member: Member) -> bool:
    """Whether replicas of other variants that are planned are not ready yet."""
    return any(
        each is not member and (plan := own[each.variant.name]) is not None and each.ready < plan.num_replicas
        for each in members
    )


def _load(load: Load) -> system.Load:
    cached = load.prompt_tokens * load.cached_share
    return system.Load(
        arrival_rate=load.arrivals_per_s * 60,
        avg_in_tokens=_rounded(load.prompt_tokens - cached),
        avg_out_tokens=_rounded(max(load.output_tokens, 1.0)),
    )


def _rounded(value: float) -> float:
    if value <= 0 or not math.isfinite(value):
        return 0.0
    return round(value, _DIGITS - 1 - math.floor(math.log10(value)))


def _named(why: str, variant: Variant) -> str:
    """The reason with the accelerator as the user knows it."""
    return why.replace(variant.name, variant.spec.accelerator)
