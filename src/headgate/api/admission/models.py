"""Model: defaults that depend on other fields, errors in resources, and warnings."""

from __future__ import annotations

from typing import Any

from headgate.api import kthena_model_rules
from headgate.api.admission import autoscaling, index_keys, model_routes, pods, references
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.kubeschema import regex

__all__ = ["check", "default"]

GROUP, KIND = "registry.volcano.sh", "Model"

_PORTS = range(1, 65536)


def default(obj: dict[str, Any]) -> None:
    """Complete the policies, and what one policy for all backends needs: grace periods, expansion rate."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    listed = spec.get("backends")
    backends = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    for part in (spec, *backends):
        if isinstance(part.get("autoscalingPolicy"), dict):
            autoscaling.default_spec(part["autoscalingPolicy"])
    if not isinstance(spec.get("autoscalingPolicy"), dict):
        return
    if spec.get("costExpansionRatePercent") is None:
        spec["costExpansionRatePercent"] = kthena_model_rules.COST_EXPANSION_PERCENT
    for backend in backends:
        if backend.get("scaleToZeroGracePeriod") is None:
            backend["scaleToZeroGracePeriod"] = kthena_model_rules.GRACE_PERIOD


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
    for worker in backend["workers"].items():
        for field in ("replicas", "pods"):
            if worker[field].integer == 0:
                found.warn(worker[field], "is 0: nothing runs for this worker")
        pods.check_resources(worker["resources"], found)
        _check_config(worker["config"], found)


def _check_config(config: FieldCursor, found: Findings) -> None:
    if not config.present:
        return
    if not isinstance(config.value, dict):
        found.invalid(config, "must be flags of the engine by name, such as {max-model-len: 8192}")
        return
    port = config["port"]
    if port.present and port.integer not in _PORTS:
        found.invalid(port, "must be a port between 1 and 65535; leave it out for 8000")


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
