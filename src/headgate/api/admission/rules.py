"""The rules of each kind, and the two entry points: `default` and `check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.api.admission import (
    autoscaling,
    configuration,
    defaults,
    http_routes,
    metadata,
    model_routes,
    model_servers,
    models,
    pods,
    pools,
    rewrites,
    scalers,
    services,
    workloads,
)
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import NOBODY, View
from headgate.api.unattended import UNATTENDED

__all__ = ["KINDS", "check", "default"]

Object = dict[str, Any]
Rules = Callable[[FieldCursor, FieldCursor | None, View, Findings], None]

_RULES: dict[tuple[str, str], Rules] = {
    ("", "ConfigMap"): configuration.check_config_map,
    ("", "Pod"): pods.check,
    ("", "Secret"): configuration.check_secret,
    ("", "Service"): services.check,
    ("apps", "Deployment"): workloads.check_deployment,
    ("apps", "ReplicaSet"): workloads.check_replica_set,
    ("apps", "StatefulSet"): workloads.check_stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): scalers.check_autoscaler,
    ("coordination.k8s.io", "Lease"): configuration.check_lease,
    (http_routes.GROUP, "HTTPRoute"): http_routes.check,
    ("inference.networking.k8s.io", "InferencePool"): pools.check_pool_v1,
    ("inference.networking.x-k8s.io", "InferenceModel"): pools.check_inference_model,
    ("inference.networking.x-k8s.io", "InferenceModelRewrite"): rewrites.check,
    ("inference.networking.x-k8s.io", "InferenceObjective"): pools.check_objective,
    ("inference.networking.x-k8s.io", "InferencePool"): pools.check_pool,
    ("llmd.ai", "VariantAutoscaling"): scalers.check_variant,
    ("networking.volcano.sh", "ModelRoute"): model_routes.check,
    ("networking.volcano.sh", "ModelServer"): model_servers.check,
    ("registry.volcano.sh", "AutoscalingPolicy"): autoscaling.check,
    ("registry.volcano.sh", "AutoscalingPolicyBinding"): scalers.check_binding,
    ("registry.volcano.sh", "Model"): models.check,
}

_DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "Pod"): defaults.default_pod,
    ("", "Service"): defaults.default_service,
    ("apps", "Deployment"): defaults.default_deployment,
    ("apps", "ReplicaSet"): defaults.default_template,
    ("registry.volcano.sh", "AutoscalingPolicy"): autoscaling.default,
    ("registry.volcano.sh", "Model"): models.default,
}

KINDS = frozenset(_RULES)
"""Groups and kinds with rules of their own, besides those for metadata."""


def check(new: Object, old: Object | None = None, others: View = NOBODY) -> Findings:
    """Validate an object with apiVersion and kind, after its defaults were filled in.

    `old` is the object before an update, for immutable fields; an update that changes only metadata and
    status is validated by its metadata only, with annotations that it changes. `others` resolves the object's
    references. Never raises, whatever the object looks like.
    """
    found = Findings()
    place = FieldCursor(new)
    group, kind = _kind_of(new)
    metadata.check(group, kind, place["metadata"], found)
    rules = _RULES.get((group, kind))
    if rules is None:
        return found
    before = None if old is None else FieldCursor(old)
    if before is not None and _desired(new) == _desired(before.mapping):
        found.within = _changed_annotations(place, before)
        if not found.within:
            return found
    elif (told := UNATTENDED.get((group, kind))) is not None:
        found.warn(place["kind"], told)
    rules(place, before, others, found)
    return found


def default(obj: Object) -> None:
    """Fill in, in place, the defaults that depend on other fields, before or after those of the schema."""
    if (fill := _DEFAULTS.get(_kind_of(obj))) is not None:
        fill(obj)


def _kind_of(obj: Object) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def _changed_annotations(new: FieldCursor, old: FieldCursor) -> tuple[str, ...]:
    """The paths of annotations that an update adds or changes: those that were invalid before may stay so, or
    nobody could write anything else to the object."""
    annotations, was = new.at("metadata.annotations"), old.at("metadata.annotations").mapping
    return tuple(
        str(annotations.key(name)) for name, value in annotations.mapping.items() if value != was.get(name)
    )


def _desired(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion")}
