"""Model: defaults that depend on other fields, errors beyond its schema, and warnings."""

from __future__ import annotations

from typing import Any

from headgate.api.admission import autoscaling, durations, index_keys, model_routes, pods, references
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check", "default"]

GROUP, KIND = "registry.volcano.sh", "Model"

_LARGEST_SUM = 1_000_000
_LONGEST_GRACE = "30m"
_GRACE, _EXPANSION = "30s", 200

_ALONE = ("vLLM", "SGLang", "MindIE")
"""Backend types with a single kind of worker."""
_WORKERS_OF = {
    "vLLMDisaggregated": ("prefill", "decode"),
    "MindIEDisaggregated": ("prefill", "decode", "controller", "coordinator"),
}


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
        _check_bounds(backend, found)
        _check_workers(backend, found)
        _check_adapters(backend["loraAdapters"], name.text, found)
        durations.check(backend["scaleToZeroGracePeriod"], found, longest=_LONGEST_GRACE)
        if backend["autoscalingPolicy"].present:
            autoscaling.check_spec(backend["autoscalingPolicy"], found)
    total = sum(backend["maxReplicas"].integer or 0 for backend in backends)
    if total > _LARGEST_SUM:
        told = f"the maxReplicas of all backends add up to {total}; at most {_LARGEST_SUM} are allowed"
        found.invalid(spec["backends"], told, total)
    if spec["autoscalingPolicy"].present:
        autoscaling.check_spec(spec["autoscalingPolicy"], found)
        _check_common_policy(spec, backends, found)
    else:
        _check_own_policies(spec, backends, found)
    model_routes.check_match(spec["modelMatch"], found)
    weights = [backend["routeWeight"].integer for backend in backends]
    if weights and all(weight == 0 for weight in weights):
        found.warn(spec["backends"], "every routeWeight is 0: requests for the model are refused")
    _check_other_models(model, name, others, found)


def _check_bounds(backend: FieldCursor, found: Findings) -> None:
    least, most = backend["minReplicas"], backend["maxReplicas"].integer
    if least.integer is not None and most is not None and least.integer > most:
        found.invalid(least, f"must be less than or equal to maxReplicas, which is {most}")


def _check_workers(backend: FieldCursor, found: Findings) -> None:
    kind, workers = backend["type"].text or "", backend["workers"]
    listed = list(workers.items())
    for worker in listed:
        image = worker["image"].text
        if image and any(character.isspace() for character in image):
            found.invalid(worker["image"], "must not have spaces")
        for field in ("replicas", "pods"):
            if worker[field].integer == 0:
                found.warn(worker[field], "is 0: nothing runs for this worker")
        pods.check_resources(worker["resources"], found)
        role = worker["type"]
        if kind in _ALONE and role.text in ("prefill", "decode", "controller", "coordinator"):
            found.invalid(role, f"must be server in a backend of type {kind}")
        elif kind in _WORKERS_OF and role.text is not None and role.text not in _WORKERS_OF[kind]:
            allowed = _WORKERS_OF[kind]
            told = f"must be {', '.join(allowed[:-1])} or {allowed[-1]} in a backend of type {kind}"
            found.invalid(role, told)
    if kind in _ALONE and len(listed) > 1:
        found.invalid(workers, f"a backend of type {kind} has exactly one worker", len(listed))
    elif kind in _WORKERS_OF and listed:
        for role_needed in ("prefill", "decode"):
            if all(worker["type"].text != role_needed for worker in listed):
                found.warn(workers, f"no worker is of type {role_needed}: this backend cannot serve")


def _check_adapters(adapters: FieldCursor, model: str | None, found: Findings) -> None:
    seen: set[str] = set()
    for adapter in adapters.items():
        name = adapter["name"]
        if name.text is None:
            continue
        if name.text == model:
            found.invalid(name, "must not be the name of the model")
        if name.text in seen:
            found.duplicate(name)
        seen.add(name.text)


# -- replicas


def _check_common_policy(spec: FieldCursor, backends: list[FieldCursor], found: Findings) -> None:
    """One policy decides for all backends and splits replicas by cost."""
    if not spec["costExpansionRatePercent"].present:
        found.required(spec["costExpansionRatePercent"], "must be set with spec.autoscalingPolicy")
    for backend in backends:
        cost, grace = backend["scalingCost"], backend["scaleToZeroGracePeriod"]
        if backend["autoscalingPolicy"].present:
            told = "may not be set together with spec.autoscalingPolicy"
            found.forbidden(backend["autoscalingPolicy"], told)
        if not cost.value:
            found.required(cost, "must be greater than 0 with spec.autoscalingPolicy")
        if not grace.present:
            found.required(grace, "must be set with spec.autoscalingPolicy")
    if backends and all(backend["minReplicas"].integer == 0 for backend in backends):
        told = "with spec.autoscalingPolicy the minReplicas of all backends must add up to 1 at least"
        found.invalid(spec["backends"], told, 0)


def _check_own_policies(spec: FieldCursor, backends: list[FieldCursor], found: Findings) -> None:
    """Each backend has a policy of its own or a fixed number of replicas."""
    needless = "may only be set with spec.autoscalingPolicy"
    if spec["costExpansionRatePercent"].present:
        found.forbidden(spec["costExpansionRatePercent"], needless)
    has_any = any(backend["autoscalingPolicy"].present for backend in backends)
    for backend in backends:
        if backend["scalingCost"].integer:
            found.forbidden(backend["scalingCost"], needless)
        if backend["scaleToZeroGracePeriod"].present:
            found.forbidden(backend["scaleToZeroGracePeriod"], needless)
        least, most = backend["minReplicas"], backend["maxReplicas"].integer
        if backend["autoscalingPolicy"].present:
            if least.integer is not None and least.integer < 1:
                found.invalid(least, "must be at least 1 in a backend with a policy of its own")
        elif least.integer is None or most is None or least.integer >= most:
            continue
        elif has_any:
            told = f"is less than maxReplicas, but no policy decides: there are always {least.integer}"
            found.warn(least, told)
        else:
            found.invalid(least, f"must equal maxReplicas, which is {most}: there is no autoscalingPolicy")


# -- other objects for the same name


def _check_other_models(model: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    own = references.key_of(model)
    for other in others.filed(index_keys.IndexKey(index_keys.MODEL, (name.text or "",)))[:4]:
        is_mine = other.key == own and other.kind in (KIND, "ModelRoute")  # its own route has the same name
        if not is_mine:
            found.warn(name, f'requests for "{name.text}" are for {other} too')
