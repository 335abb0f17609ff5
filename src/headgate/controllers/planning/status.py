"""The status of a VariantAutoscaling from what a pass has found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate import api
from headgate.api.llmd import ActuationStatus, Allocation, OptimizedAlloc, VariantAutoscalingStatus
from headgate.controllers import conditions
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.conditions import Finding
from headgate.controllers.planning.assembling import Planned
from headgate.controllers.planning.loads import Demand
from headgate.controllers.planning.variants import Problem, Variant
from headgate.kubeschema import timestamps
from headgate.planning.load import Load, Missing

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

    variant: Variant | Problem
    workload: Scalable | None
    current: int = 0
    """Replicas that the workload has to have."""
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
        current_alloc=_current(found),
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


def _current(found: Found) -> Allocation | None:
    variant = found.variant
    if found.workload is None or isinstance(variant, Problem):
        return None
    spec = variant.spec
    return Allocation(
        variant_id=spec.variant_id,
        accelerator=spec.accelerator,
        num_replicas=found.current,
        max_batch=spec.variant_profile.max_batch_size,
        variant_cost=f"{found.current * variant.replica_cost:.2f}",
    )


def _findings(obj: api.VariantAutoscaling, found: Found) -> Iterator[Finding]:
    key = obj.metadata.key
    workload, variant, load = found.workload, found.variant, found.load
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
    if isinstance(variant, Problem):
        yield Finding(OPTIMIZATION, False, variant.reason, variant.message)
    elif workload is None:
        yield Finding(
            OPTIMIZATION, False, "TargetNotFound", "nothing is planned for a workload that is not there"
        )
    elif found.failure:
        yield Finding(OPTIMIZATION, False, FAILED, found.failure)
    elif isinstance(load, Missing):
        yield Finding(OPTIMIZATION, False, UNAVAILABLE, "the load is not known, so the last plan stays")
    elif found.planned is not None:
        yield _of_plan(variant, found.planned)
    if found.actuated is not None:
        yield found.actuated


def _of_plan(variant: Variant, planned: Planned) -> Finding:
    allocation = planned.allocation
    if allocation is None:
        told = "; ".join((planned.failure, "the last plan stays", *variant.remarks))
        return Finding(OPTIMIZATION, False, INFEASIBLE, told)
    replicas = f"{planned.replicas} replica{'' if planned.replicas == 1 else 's'}"
    parts = [f"{replicas} of {variant.accelerator.name}"]
    if planned.replicas > allocation.num_replicas:
        parts.append("some of them only until replicas of other variants are ready")
    if allocation.served < 1:
        parts.append("not all requests can be served within the objectives")
    return Finding(OPTIMIZATION, True, "OptimizationSucceeded", "; ".join((*parts, *variant.remarks)))
