"""Model: defaults that depend on other fields, errors in resources, and warnings."""

from __future__ import annotations

from typing import Any

from headgate.api.admission import autoscaling, index_keys, model_routes, pods, references
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.kubeschema import regex

__all__ = ["check", "default"]

GROUP, KIND = "registry.volcano.sh", "Model"

_GRACE, _EXPANSION = "30s", 200
_DISAGGREGATED = ("vLLMDisaggregated", "MindIEDisaggregated")


def default(obj: dict[str, Any]) -> None:
    """Fill in what one policy for all backends needs: the grace period of each, and the expansion rate."""
    spec = obj.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("autoscalingPolicy"), dict):
        return
    if spec.get("costExpansionRatePercent") is None:
        spec["costExpansionRatePercent"] = _EXPANSION
    backends = spec.get("backends")
    for backend in backends if isinstance(backends, list) else ():
        if isinstance(backend, dict) and backend.get("scaleToZeroGracePeriod") is None:
            backend["scaleToZeroGracePeriod"] = _GRACE


def check(model: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Model."""
    spec = model["spec"]
    backends = list(spec["backends"].items())
    name = spec["name"] if spec["name"].text else model.at("metadata.name")
    for backend in backends:
        _check_workers(backend, found)
        if backend["autoscalingPolicy"].present:
            autoscaling.check_spec(backend["autoscalingPolicy"], found)
    if spec["autoscalingPolicy"].present:
        autoscaling.check_spec(spec["autoscalingPolicy"], found)
    else:
        _warn_of_fixed_replicas(backends, found)
    model_routes.check_match(spec["modelMatch"], regex.Budget(), found)
    weights = [backend["routeWeight"].integer for backend in backends]
    if weights and all(weight == 0 for weight in weights):
        found.warn(spec["backends"], "every routeWeight is 0: requests for the model are refused")
    _check_other_models(model, name, others, found)


def _check_workers(backend: FieldCursor, found: Findings) -> None:
    workers = backend["workers"]
    listed = list(workers.items())
    for worker in listed:
        for field in ("replicas", "pods"):
            if worker[field].integer == 0:
                found.warn(worker[field], "is 0: nothing runs for this worker")
        pods.check_resources(worker["resources"], found)
    if backend["type"].text in _DISAGGREGATED and listed:
        for role_needed in ("prefill", "decode"):
            if all(worker["type"].text != role_needed for worker in listed):
                found.warn(workers, f"no worker is of type {role_needed}: this backend cannot serve")


def _warn_of_fixed_replicas(backends: list[FieldCursor], found: Findings) -> None:
    """Each backend has a policy of its own or a fixed number of replicas."""
    if not any(backend["autoscalingPolicy"].present for backend in backends):
        return
    for backend in backends:
        least, most = backend["minReplicas"], backend["maxReplicas"].integer
        if backend["autoscalingPolicy"].present or least.integer is None or most is None:
            continue
        if least.integer < most:
            told = f"is less than maxReplicas, but no policy decides: there are always {least.integer}"
            found.warn(least, told)


# -- other objects for the same name


def _check_other_models(model: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    own = references.key_of(model)
    for other in others.filed(index_keys.IndexKey(index_keys.MODEL, (name.text or "",)))[:4]:
        is_mine = other.key == own and other.kind in (KIND, "ModelRoute")  # its own route has the same name
        if not is_mine:
            found.warn(name, f'requests for "{name.text}" are for {other} too')
