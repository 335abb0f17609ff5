"""The status of a binding, from the decision about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate import api
from headgate.api.kthena_registry import (
    AutoscalingMetricStatus,
    AutoscalingPolicyBindingStatus,
    AutoscalingTargetStatus,
)
from headgate.autoscaling import Decision, MetricView
from headgate.controllers import conditions
from headgate.controllers.autoscaling.missing import reasons
from headgate.controllers.autoscaling.passes import Pass
from headgate.controllers.autoscaling.targets import NO_TARGET, Refusal
from headgate.controllers.conditions import Finding
from headgate.kubeschema import timestamps

READY, TARGET_FOUND = "Ready", "TargetFound"
METRICS_AVAILABLE, SCALING_LIMITED = "MetricsAvailable", "ScalingLimited"
POLICY_NOT_FOUND, POLICY_INVALID, CONFLICT = "PolicyNotFound", "PolicyInvalid", "Conflict"
SCALING, START_FAILED, REJECTED = "Scaling", "StartFailed", "ScaleRejected"
STABLE, PANIC = "Stable", "Panic"
NO_METRICS: Final = "MetricsMissing"
_MAX_WHY: Final = 1024
"""Characters of what explains that metrics are missing."""
LIMITS: Final = {"Minimum": "minReplicas", "Maximum": "maxReplicas"}


def decided(
    binding: api.AutoscalingPolicyBinding, done: Pass, references: Finding | None
) -> AutoscalingPolicyBindingStatus:
    """The status of a binding by which replicas were decided, without the history."""
    decision, now = done.outcome.decision, done.observation.now
    before = binding.status or AutoscalingPolicyBindingStatus()
    scaled = list(zip(done.found, done.outcome.replicas, strict=True))
    named = ", ".join(str(found.target.workload) for found, _ in scaled)
    findings = [
        _ready(done),
        Finding(TARGET_FOUND, True, "TargetFound", f"Scales {named}"),
        _metrics(decision, done),
        _limited(decision),
        *([references] if references is not None else []),
    ]
    is_change = not done.rejected and any(desired != found.current for found, desired in scaled)
    return AutoscalingPolicyBindingStatus(
        conditions=_conditions(binding, findings, now),
        observed_generation=binding.metadata.generation,
        current_replicas=decision.current,
        desired_replicas=decision.desired,
        recommended_replicas=decision.recommended,
        metric_name=decision.metric,
        value=number(decision.value),
        target_value=number(decision.target),
        rule=decision.rule,
        mode=PANIC if decision.is_panic else STABLE,
        held_until=_time(decision.held_until),
        panic_until=_time(decision.panic_until),
        last_scale_time=timestamps.seconds(now) if is_change else before.last_scale_time,
        message=decision.message,
        metrics=[_metric(view) for view in decision.metrics],
        targets=[
            AutoscalingTargetStatus(
                kind=found.target.workload.kind,
                name=found.target.workload.name,
                namespace=found.target.workload.namespace,
                current_replicas=found.current,
                ready_replicas=found.ready,
                desired_replicas=desired,
            )
            for found, desired in scaled
        ],
    )


def refused(
    binding: api.AutoscalingPolicyBinding, refusal: Refusal, references: Finding | None, now: float
) -> AutoscalingPolicyBindingStatus:
    """The status of a binding that cannot act. It keeps its history: the cause may be short."""
    before = binding.status or AutoscalingPolicyBindingStatus()
    findings = [Finding(READY, False, refusal.reason, refusal.message)]
    if refusal.reason in _OF_TARGETS:
        findings.append(Finding(TARGET_FOUND, False, refusal.reason, refusal.message))
    findings += [references] if references is not None else []
    kept = {each.type for each in findings}
    about = {METRICS_AVAILABLE, SCALING_LIMITED, TARGET_FOUND} - kept
    said = [each for each in before.conditions if each.type not in about]
    found = conditions.observed(
        api.ObservedStatus(conditions=said), findings, binding.metadata.generation, timestamps.seconds(now)
    )
    return AutoscalingPolicyBindingStatus(
        conditions=found.conditions,
        observed_generation=binding.metadata.generation,
        last_scale_time=before.last_scale_time,
        message=refusal.message,
        history=before.history,
    )


_OF_TARGETS: Final = frozenset(
    (NO_TARGET, "TargetNotFound", "KindNotSupported", "DuplicateTarget", "TargetAmbiguous")
)


def of_policy(policy: api.AutoscalingPolicy, error: str, users: int, now: float) -> api.ObservedStatus:
    """The status of a policy; `error` is why it cannot be used, or empty."""
    if error:
        finding = Finding(READY, False, POLICY_INVALID, error)
    else:
        many = "one binding uses it" if users == 1 else f"{users} bindings use it"
        finding = Finding(READY, True, "Accepted", many[:1].upper() + many[1:])
    return conditions.observed(policy.status, [finding], policy.metadata.generation, timestamps.seconds(now))


def written(due: msgspec.Struct) -> dict[str, Any]:
    """As a merge patch: fields that have become empty are null."""
    status = msgspec.to_builtins(due)
    # An API server requires every condition to have a message, even an empty one.
    status["conditions"] = [{"message": ""} | each for each in status.get("conditions", [])]
    empty = {field.encode_name: None for field in msgspec.structs.fields(due)}
    return {**empty, **status}


def essence(status: AutoscalingPolicyBindingStatus | None) -> object:
    """What is written as soon as it changes."""
    if status is None:
        return None
    said = [(each.type, each.status, each.reason) for each in status.conditions]
    targets = [(each.kind, each.name, each.desired_replicas) for each in status.targets]
    return status.observed_generation, sorted(said), status.desired_replicas, status.mode, targets


def words(status: AutoscalingPolicyBindingStatus) -> object:
    """What is written soon: everything but measured values, and what follows from them."""
    return msgspec.structs.replace(
        status,
        history="",
        value="",
        metrics=[],
        message="",
        held_until=None,
        panic_until=None,
        recommended_replicas=None,
    )


def _time(seconds: float | None) -> str | None:
    return timestamps.seconds(seconds) if seconds is not None else None


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _metric(view: MetricView) -> AutoscalingMetricStatus:
    return AutoscalingMetricStatus(
        metric_name=view.name,
        value=number(view.value),
        target_value=number(view.target),
        desired_replicas=view.desired,
    )


def is_ready(done: Pass) -> bool:
    """Whether something decided: without any metric, replicas stay. At zero, gateways have to tell of
    requests, and Pods have no metrics."""
    decision = done.outcome.decision
    if decision.recommended is not None:
        return True
    if not decision.desired:
        return done.observation.idle_since is not None
    return decision.rule not in ("", "MetricMissing")


def _ready(done: Pass) -> Finding:
    if done.rejected:
        return Finding(READY, False, REJECTED, conditions.enumerated(done.rejected, "; "))
    if not is_ready(done):
        told = "No metric could be measured, so that replicas stay"
        if not done.outcome.decision.desired:
            why = conditions.enumerated(done.load.missing, "; ", _MAX_WHY)
            told = f"There are no replicas, and not every gateway tells whether requests wait: {why}"
        return Finding(READY, False, NO_METRICS, told)
    if done.failed:
        told = f"Replicas are decided, but no Pod becomes ready: {done.failed}"
        return Finding(READY, True, START_FAILED, told)
    return Finding(READY, True, SCALING, "Replicas are decided by the policy")


def _metrics(decision: Decision, done: Pass) -> Finding:
    missing = [each.name for each in decision.metrics if each.value is None]
    if missing:
        told = f"Not measured: {conditions.enumerated(missing)}"
        why = dict.fromkeys(reasons(missing, done.observation.pods, done.problems, done.load.missing))
        if why:
            told = f"{told}; {conditions.enumerated(why, '; ', _MAX_WHY)}"
        return Finding(METRICS_AVAILABLE, False, NO_METRICS, told)
    return Finding(METRICS_AVAILABLE, True, "Measured", "Every metric could be measured")


def _limited(decision: Decision) -> Finding:
    if decision.rule in LIMITS:
        told = f"{LIMITS[decision.rule]} holds replicas at {decision.desired}"
        return Finding(SCALING_LIMITED, True, decision.rule, told)
    return Finding(SCALING_LIMITED, False, "WithinBounds", "The bounds leave what is recommended")


def _conditions(
    binding: api.AutoscalingPolicyBinding, findings: Sequence[Finding], now: float
) -> list[api.Condition]:
    said = binding.status.conditions if binding.status is not None else []
    before = api.ObservedStatus(conditions=said)
    generation = binding.metadata.generation
    return conditions.observed(before, findings, generation, timestamps.seconds(now)).conditions
