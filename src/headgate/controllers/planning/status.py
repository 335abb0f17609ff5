"""The status of a VariantAutoscaling from what a pass has found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate import api
from headgate.api.llmd import ActuationStatus, Allocation, OptimizedAlloc, VariantAutoscalingStatus
from headgate.autoscaling.starting import Starts
from headgate.controllers import conditions
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.conditions import Finding
from headgate.controllers.planning.deciding import Planned
from headgate.controllers.planning.loads import Demand
from headgate.kubeschema import timestamps
from headgate.planning.load import Load, Missing
from headgate.planning.variants import Variant, VariantProblem

METRICS, OPTIMIZATION, TARGET, ACTUATED = (
    "MetricsAvailable",
    "OptimizationReady",
    "TargetResolved",
    "Actuated",
)
INFEASIBLE, FAILED, UNAVAILABLE = "Infeasible", "OptimizationFailed", "MetricsUnavailable"
_BEFORE: Final = "Ready"
"""A condition that says that nothing plans the object, of versions of which that was true."""


class Found(NamedTuple):
    """What a pass has found about one object."""

    variant: Variant
    workload: Scalable | None
    current: int = 0
    """Replicas that the workload has to have."""
    pods: Sequence[api.Pod] = ()
    """Those that are to serve."""
    starts: Starts = Starts()
    price: float | None = None
    """Of a replica, in cents per hour; None: there is no cost of its accelerator."""
    problems: Sequence[VariantProblem] = ()
    demand: Demand | None = None
    load: Load | Missing | None = None
    planned: Planned | None = None
    sleeps: bool = False
    """Whether the model may have no replicas after a time without requests."""
    may_be_zero: bool = False
    """Whether that time is over."""
    failure: str = ""
    """Why nothing at all could be planned."""
    owner: str = ""
    """Who controls the object, if it is not its workload."""
    actuated: Finding | None = None
    """About the write of replicas; None: others scale by the gauges."""


def due(obj: api.VariantAutoscaling, found: Found, now: float) -> VariantAutoscalingStatus:
    before = obj.status or VariantAutoscalingStatus()
    own = list(_findings(obj, found))
    kept = [each for each in before.conditions if each.type not in (_BEFORE, ACTUATED)]
    kept += [each for each in before.conditions if each.type == ACTUATED and found.actuated is not None]
    at = timestamps.seconds(now)
    said = conditions.observed(
        api.ObservedStatus(conditions=kept), own, obj.metadata.generation, at
    ).conditions
    planned = found.planned
    desired = before.desired_optimized_alloc
    if planned is not None and planned.allocation is not None:
        desired = OptimizedAlloc(
            last_run_time=at,
            variant_id=obj.spec.variant_id,
            accelerator=obj.spec.accelerator,
            num_replicas=planned.replicas,
        )
    applied = desired is not None and (found.actuated is None or found.actuated.holds)
    return VariantAutoscalingStatus(
        current_alloc=_current(obj, found),
        desired_optimized_alloc=desired,
        actuation=ActuationStatus(applied=applied and found.workload is not None),
        conditions=said,
    )


def essence(status: VariantAutoscalingStatus | None) -> object:
    """A status without the time of the last run."""
    if status is None:
        return None
    desired = status.desired_optimized_alloc
    if desired is not None:
        desired = msgspec.structs.replace(desired, last_run_time=None)
    ordered = sorted(status.conditions, key=lambda each: each.type)
    return msgspec.structs.replace(status, desired_optimized_alloc=desired, conditions=ordered)


def ran_at(status: VariantAutoscalingStatus | None) -> float | None:
    """The time of the last run; None if there is none, or it cannot be read."""
    desired = status.desired_optimized_alloc if status is not None else None
    if desired is None or desired.last_run_time is None:
        return None
    try:
        return timestamps.parse(desired.last_run_time)
    except ValueError:
        return None


def written(status: VariantAutoscalingStatus) -> Mapping[str, Any]:
    """For a merge patch: what is gone is null, and conditions have messages, even empty ones."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    said: Sequence[dict[str, Any]] = plain.get("conditions", ())
    return {
        "currentAlloc": plain.get("currentAlloc"),
        "desiredOptimizedAlloc": plain.get("desiredOptimizedAlloc"),
        "actuation": plain.get("actuation"),
        "conditions": [{"message": ""} | each for each in said],
    }


def _current(obj: api.VariantAutoscaling, found: Found) -> Allocation | None:
    if found.workload is None or found.price is None:
        return None
    spec = obj.spec
    return Allocation(
        variant_id=spec.variant_id,
        accelerator=spec.accelerator,
        num_replicas=found.current,
        max_batch=spec.variant_profile.max_batch_size,
        variant_cost=f"{found.current * found.price:.2f}",
    )


def _findings(obj: api.VariantAutoscaling, found: Found) -> Iterator[Finding]:
    key = obj.metadata.key
    workload, load = found.workload, found.load
    if workload is None:
        told = f"there is no Deployment, StatefulSet or LeaderWorkerSet {key}"
        yield Finding(TARGET, False, "TargetNotFound", told)
    else:
        told = str(workload.place)
        if found.owner:
            told += f"; {found.owner} controls this object, which stays when the workload is deleted"
        yield Finding(TARGET, True, "TargetFound", told)
    if isinstance(load, Load):
        yield Finding(METRICS, True, "MetricsFound", f"the load of {obj.spec.model_id} is known")
    elif load is not None:
        yield Finding(METRICS, False, load.reason, load.message)
    yield from _optimization(found)
    if found.actuated is not None:
        yield found.actuated


def _optimization(found: Found) -> Iterator[Finding]:
    wrong = [each for each in found.problems if not each.is_warning]
    odd = [each.message for each in found.problems if each.is_warning]
    if wrong:
        told = "; ".join([*(each.message for each in wrong), *odd])
        yield Finding(OPTIMIZATION, False, wrong[0].reason, told)
    elif found.workload is None:
        told = "nothing is planned for a workload that is not there"
        yield Finding(OPTIMIZATION, False, "TargetNotFound", "; ".join((told, *odd)))
    elif found.failure:
        yield Finding(OPTIMIZATION, False, FAILED, found.failure)
    elif isinstance(found.load, Missing):
        told = "the load is not known, so the last plan stays"
        yield Finding(OPTIMIZATION, False, UNAVAILABLE, "; ".join((told, *odd)))
    elif found.planned is not None:
        yield _of_plan(found.variant, found.planned, odd)


def _of_plan(variant: Variant, planned: Planned, odd: Sequence[str]) -> Finding:
    allocation = planned.allocation
    if allocation is None:
        told = "; ".join((planned.failure, "the last plan stays", *odd))
        return Finding(OPTIMIZATION, False, FAILED, told)
    parts = [f"{counted(planned.replicas)} of {variant.accelerator}"]
    if planned.replicas > allocation.replicas:
        which = "some of them only" if allocation.replicas else "only"
        parts[0] += f", {which} until replicas of other variants are ready"
    if allocation.unfit and not allocation.served:
        return Finding(OPTIMIZATION, False, FAILED, "; ".join((*parts, allocation.unfit, *odd)))
    if allocation.unfit:
        parts.append(f"{allocation.unfit}; other variants serve {variant.model}")
        return Finding(OPTIMIZATION, False, INFEASIBLE, "; ".join((*parts, *odd)))
    if allocation.served < 1:
        parts.append("not all requests can be served within the objectives")
    return Finding(OPTIMIZATION, True, "OptimizationSucceeded", "; ".join((*parts, *odd)))


def counted(replicas: int) -> str:
    """In words."""
    return f"{replicas or 'no'} replica{'' if replicas == 1 else 's'}"
