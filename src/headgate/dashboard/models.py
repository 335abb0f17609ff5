"""The page of models: how far each rollout is, and what autoscaling decided, from the objects' statuses.

Gateways route without reading these objects, so the page reads them only while somebody looks, and says so if
it may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate import api
from headgate.api.kthena_registry import AutoscalingPolicyBindingStatus, ModelStatus
from headgate.api.llmd import VariantAutoscalingStatus

MAX_ROWS: Final = 100
MAX_EVENTS: Final = 50
GOOD: Final = frozenset(
    {"Active", "Initialized", "Ready", "TargetFound", "MetricsAvailable", "OptimizationReady", "ResolvedRefs"}
)
"""Conditions that should hold; others say something only if they do."""


class Objects(NamedTuple):
    """What an API server says; `missing`: why it does not say everything."""

    models: Sequence[api.Model] = ()
    bindings: Sequence[api.AutoscalingPolicyBinding] = ()
    variants: Sequence[api.VariantAutoscaling] = ()
    events: Sequence[api.Event] = ()
    missing: Sequence[str] = ()


class ConditionRow(NamedTuple):
    words: str
    """Its type, or what it says if that is bad."""
    message: str
    since: str
    is_bad: bool


class BackendRow(NamedTuple):
    name: str
    wanted: str
    """Replicas that the Model asks for; a range if they are scaled."""
    replicas: int
    ready: int
    adapters: list[str]


class ModelRow(NamedTuple):
    name: str
    is_current: bool
    """Whether the status is that of the latest version."""
    backends: list[BackendRow]
    conditions: list[ConditionRow]


class ScalingRow(NamedTuple):
    name: str
    kind: str
    current: int | None
    desired: int | None
    recommended: int | None
    decided: str
    """What decided, and what bounded it."""
    message: str
    last_change: str
    conditions: list[ConditionRow]


class EventRow(NamedTuple):
    at: str
    about: str
    reason: str
    message: str
    times: int
    is_bad: bool


def models(objects: Objects) -> list[ModelRow]:
    """Those that are not as they should be first."""
    found = []
    for model in objects.models:
        status = model.status or ModelStatus()
        known = {each.name: each for each in status.backend_statuses}
        backends = []
        for backend in model.spec.backends:
            seen = known.get(backend.name)
            least, most = backend.min_replicas, backend.max_replicas
            wanted = str(least) if least == most else f"{least} to {most}"
            adapters = [
                f"{each.name} {each.state}{f': {each.error}' if each.error else ''}"
                for each in (seen.adapters if seen is not None else ())
            ]
            replicas, ready = (seen.replicas, seen.ready_replicas) if seen is not None else (0, 0)
            backends.append(BackendRow(backend.name, wanted, replicas, ready, adapters))
        is_current = status.observed_generation == model.metadata.generation
        found.append(ModelRow(str(model.metadata.key), is_current, backends, conditions(status.conditions)))
    found.sort(key=lambda row: (not _is_bad(row.conditions) and row.is_current, row.name))
    return found[:MAX_ROWS]


def scalings(objects: Objects) -> list[ScalingRow]:
    """Bindings, then variants."""
    found = []
    for binding in objects.bindings:
        status = binding.status or AutoscalingPolicyBindingStatus()
        decided = f"{status.metric_name} {status.value} for {status.target_value} each"
        decided = decided if status.metric_name else ""
        found.append(
            ScalingRow(
                name=str(binding.metadata.key),
                kind="AutoscalingPolicyBinding",
                current=status.current_replicas,
                desired=status.desired_replicas,
                recommended=status.recommended_replicas,
                decided=f"{decided}, bounded by {status.rule}" if status.rule else decided,
                message=status.message,
                last_change=status.last_scale_time or "",
                conditions=conditions(status.conditions),
            )
        )
    for variant in objects.variants:
        found_status = variant.status or VariantAutoscalingStatus()
        current, desired = found_status.current_alloc, found_status.desired_optimized_alloc
        found.append(
            ScalingRow(
                name=str(variant.metadata.key),
                kind="VariantAutoscaling",
                current=current.num_replicas if current is not None else None,
                desired=desired.num_replicas if desired is not None else None,
                recommended=None,
                decided=f"{variant.spec.model_id} on {variant.spec.accelerator}",
                message=f"costs {current.variant_cost}" if current is not None else "",
                last_change=(desired.last_run_time or "") if desired is not None else "",
                conditions=conditions(found_status.conditions),
            )
        )
    return found[:MAX_ROWS]


def events(objects: Objects) -> list[EventRow]:
    """The last ones, the newest first."""
    found = [
        EventRow(
            at=each.last_timestamp or each.event_time or each.metadata.creation_timestamp or "",
            about=f"{each.involved_object.kind} {each.involved_object.namespace}/{each.involved_object.name}",
            reason=each.reason,
            message=each.message,
            times=each.count,
            is_bad=each.type == "Warning",
        )
        for each in objects.events
    ]
    found.sort(key=lambda row: row.at, reverse=True)
    return found[:MAX_EVENTS]


def conditions(found: Sequence[api.Condition]) -> list[ConditionRow]:
    """Those that say something: all that should hold, and of the others those that do."""
    rows = []
    for each in found:
        holds, should = each.status == "True", each.type in GOOD
        if not holds and not should:
            continue
        is_bad = not holds or each.type == "Failed"
        words = each.type if holds else f"{each.type} is {each.status}: {each.reason}"
        rows.append(ConditionRow(words, each.message, each.last_transition_time or "", is_bad))
    return rows


def _is_bad(found: Sequence[ConditionRow]) -> bool:
    return any(each.is_bad for each in found)
