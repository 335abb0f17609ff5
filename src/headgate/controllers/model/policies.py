"""The AutoscalingPolicies of a Model and their bindings: for all backends together, or for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate import api
from headgate.api import kthena_model_rules, marks
from headgate.api.admission import autoscaling
from headgate.api.kthena_registry import AutoscalingPolicySpec
from headgate.controllers.model import names
from headgate.controllers.model.backends import Backend
from headgate.controllers.model.scope import Child, Scope
from headgate.kubeschema import duration

_LARGEST: Final = 1_000_000


def of_model(scope: Scope, backends: Sequence[Backend]) -> list[Child]:
    """The policy of the Model with a binding for all backends, or those of single backends."""
    spec = scope.model.spec
    found: list[Child] = []
    if spec.autoscaling_policy is not None:
        params = [
            {**_scaling(backend), "cost": _cost(backend)}
            for backend in backends
            if _can_scale(scope, backend)
        ]
        if params:
            rate = spec.cost_expansion_rate_percent
            optimizer = {
                "params": params,
                "costExpansionRatePercent": kthena_model_rules.COST_EXPANSION_PERCENT
                if rate is None
                else rate,
            }
            name = names.shortened(scope.model.metadata.name, names.LONGEST_NAME)
            configuration = {"optimizerConfiguration": optimizer}
            scaled = [backend for backend in backends if backend.carrier.share]
            found += _policy(scope, name, spec.autoscaling_policy, configuration, grace=_grace(scaled))
        return found
    for backend in backends:
        policy = backend.spec.autoscaling_policy
        if policy is not None and _can_scale(scope, backend):
            configuration = {"scalingConfiguration": _scaling(backend)}
            grace = _grace([backend])
            found += _policy(scope, backend.server, policy, configuration, backend.spec.name, grace)
    return found


def _policy(
    scope: Scope,
    name: str,
    policy: AutoscalingPolicySpec,
    configuration: dict[str, Any],
    backend: str = "",
    grace: str = "",
) -> list[Child]:
    binding = {"policyRef": {"name": name}, **configuration}
    metadata = {"annotations": {marks.ZERO_GRACE_PERIOD: grace}} if grace else {}
    spec = msgspec.to_builtins(policy)
    autoscaling.default_spec(spec)  # a cluster has none of the defaults that depend on other fields
    return [
        scope.child(api.AutoscalingPolicy, name, spec, backend),
        scope.child(api.AutoscalingPolicyBinding, name, binding, backend, **metadata),
    ]


def _grace(backends: Sequence[Backend]) -> str:
    """How long there must be no requests before the last replica goes; empty if it stays. Backends that are
    scaled together go to zero together, after the longest of their times."""
    periods = [each.spec.scale_to_zero_grace_period for each in backends if not each.spec.min_replicas]
    known = [each for each in periods if each]
    return max(known, key=duration.parse, default="") if len(known) == len(backends) else ""


def _can_scale(scope: Scope, backend: Backend) -> bool:
    if backend.carrier.share:
        return True
    scope.report(
        f"{backend.carrier.place}.replicas",
        "is 0; an autoscalingPolicy scales a backend by this worker, so that it needs at least 1",
    )
    return False


def _scaling(backend: Backend) -> dict[str, Any]:
    """The workload that is measured and scaled, in replicas of the workload."""
    carrier = backend.carrier
    kind = api.LeaderWorkerSet if carrier.in_groups else api.Deployment
    target = {
        "targetRef": {
            "apiVersion": kind.resource.api_version,
            "kind": kind.resource.kind,
            "name": carrier.name,
        },
        "additionalMatchLabels": {
            names.WORKLOAD: names.shortened(carrier.name, names.LONGEST_LABEL),
            **({names.ENTRY: "true"} if carrier.launch.takes_requests else {}),
        },
        # The sidecar has the metrics of every engine by the same names.
        "metricEndpoint": {"uri": "/metrics", "port": backend.runtime.port},
    }
    return {
        "target": target,
        "minReplicas": min(backend.spec.min_replicas * carrier.share, _LARGEST),
        "maxReplicas": min(backend.spec.max_replicas * carrier.share, _LARGEST),
    }


def _cost(backend: Backend) -> int:
    """Of one replica of the workload."""
    cost = backend.spec.scaling_cost
    return max(cost // backend.carrier.share, 1) if cost else 0
