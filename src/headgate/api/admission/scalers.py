"""Objects that decide the number of replicas: errors and warnings."""

from __future__ import annotations

import math

from headgate.api import marks
from headgate.api.admission import index_keys, pods, selectors
from headgate.api.admission.annotations import warn_of_grace, warn_of_own
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.index_keys import ScalingTarget
from headgate.api.admission.references import View
from headgate.api.meta import ObjectKey
from headgate.api.reference_grants import End, Reference

__all__ = ["check_autoscaler", "check_binding", "check_variant"]

_BINDING_GROUP, _BINDING_KIND = "registry.volcano.sh", "AutoscalingPolicyBinding"


def check_binding(binding: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an AutoscalingPolicyBinding."""
    spec = binding["spec"]
    _check_policy(binding, spec.at("policyRef.name"), others, found)
    scaling, params = spec["scalingConfiguration"], spec["optimizerConfiguration"]["params"]
    for place in (scaling, *params.items()):
        if isinstance(place.value, dict):
            _check_bounds(place, found)
            _check_target(place["target"], found)
    annotations = binding.at("metadata.annotations")
    warn_of_own("AutoscalingPolicyBindings", annotations, marks.OF_BINDINGS, found)
    least = [each["minReplicas"].integer or 0 for each in (scaling, *params.items())]
    warn_of_grace(annotations, max(least), found)
    seen: dict[tuple[str, tuple[str, str]], ScalingTarget] = {}
    for target in index_keys.targets_of_binding(binding):
        same = target.namespace, target.workload
        if same in seen:
            told = f"is the target of {seen[same].place.label} already"
            found.warn(target.reference["name"], f'"{target.workload[1]}" {told}')
            continue
        seen[same] = target
        _check_workload(binding, target, others, found)
    costs = [each["cost"].integer for each in params.items()]
    if len(costs) > 1 and not any(costs):
        found.warn(params, "every cost is 0: nothing tells which target is cheaper")


def _check_policy(binding: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    if not name.text:
        return
    key = ObjectKey(binding.at("metadata.namespace").text or "", name.text)
    if others.get(_BINDING_GROUP, "AutoscalingPolicy", key) is not None:
        return
    if others.among:
        found.warn(name, f"there is no AutoscalingPolicy {key}{others.among}")
    else:
        found.not_found(name)


def _check_bounds(place: FieldCursor, found: Findings) -> None:
    least, most = place["minReplicas"].integer, place["maxReplicas"].integer
    if least is None or most is None:
        return
    if least > most:
        told = f"{least} is more than maxReplicas, which is {most}: no number of replicas satisfies both"
        found.warn(place["minReplicas"], told)
    elif least == most:
        found.warn(place["minReplicas"], f"equals maxReplicas: there is nothing to scale, always {least}")


def _check_target(target: FieldCursor, found: Findings) -> None:
    if not target.at("targetRef.name").value:
        found.warn(target["targetRef"], "names no object: nothing is scaled")
    selectors.warn_of_labels(target["additionalMatchLabels"], found)
    uri, port = target.at("metricEndpoint.uri"), target.at("metricEndpoint.port")
    if uri.text is not None and not uri.text.startswith("/"):
        found.warn(uri, f'"{uri.text}" does not begin with "/": it is no path')
    if port.integer is not None and not 1 <= port.integer <= 65535:
        found.warn(port, f"{port.integer} is no port: a port is between 1 and 65535")


def _check_workload(binding: FieldCursor, target: ScalingTarget, others: View, found: Findings) -> None:
    kind, name = target.workload
    reference = target.reference
    namespace = target.namespace
    group = index_keys.group_of(reference)
    if (refusal := _refusal(binding, target, group, others)) is not None:
        found.warn(reference["namespace"], refusal)
        return
    if not kind or group is None:
        told = "does not say what it is: set apiVersion and kind, as in apps/v1 and Deployment"
        found.warn(reference, told)
    elif not others.serves(group, kind):
        found.warn(reference["kind"], f"there is no kind {kind} in group {group or 'core'} here")
    elif others.get(group, kind, ObjectKey(namespace, name)) is None:
        told = (
            f"there is no {kind} {ObjectKey(namespace, name)}{others.among}; nothing is scaled until there is"
        )
        found.warn(reference["name"], told)
    scaled = (namespace, *target.workload)
    warn_of_other_scalers(_BINDING_GROUP, _BINDING_KIND, binding, reference["name"], scaled, others, found)


def _refusal(binding: FieldCursor, target: ScalingTarget, group: str | None, others: View) -> str | None:
    """Why the target, which is in another namespace, may not be scaled; None if it may."""
    namespace = binding.at("metadata.namespace").text or ""
    kind, name = target.workload
    reference = Reference(
        End(_BINDING_GROUP, _BINDING_KIND, namespace, binding.at("metadata.name").text or ""),
        End(group or "", kind, target.namespace, name),
    )
    if not reference.is_across or any(
        others.filed(index_keys.IndexKey(index_keys.GRANTS, entry)) for entry in reference.allowing
    ):
        return None
    return reference.hint


def warn_of_other_scalers(
    group: str,
    kind: str,
    obj: FieldCursor,
    place: FieldCursor,
    workload: tuple[str, str, str],
    others: View,
    found: Findings,
) -> None:
    """Warn of another object that decides the replicas of the same workload: namespace, kind and name."""
    own = obj.at("metadata.namespace").text or "", obj.at("metadata.name").text or ""
    for other in others.filed(index_keys.IndexKey(index_keys.SCALES, workload))[:4]:
        if (other.group, other.kind, other.key) != (group, kind, own):
            told = f"{other} decides how many replicas {workload[1]} {workload[0]}/{workload[2]} has as well"
            found.warn(place, f"{told}; {_followed(kind, other.kind)}")


_AUTOSCALER_GROUP, _AUTOSCALER_KIND = "autoscaling", "HorizontalPodAutoscaler"


def _followed(kind: str, other: str) -> str:
    """A HorizontalPodAutoscaler scales whatever else there is, so that the controllers step back."""
    number = (kind, other).count(_AUTOSCALER_KIND)
    if number == 2:
        return "they overwrite each other: delete one of them"
    return f"the {_AUTOSCALER_KIND} is followed" if number else "the older one is followed"


def check_autoscaler(autoscaler: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a HorizontalPodAutoscaler, in either version."""
    spec = autoscaler["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    pods.at_least(least, 1, found)
    if most.integer is not None and most.integer < 1:
        found.invalid(most, "must be greater than 0")
    elif most.integer is not None and least.integer is not None and most.integer < least.integer:
        found.invalid(most, "must be greater than or equal to `minReplicas`")
    reference = spec["scaleTargetRef"]
    for field in ("kind", "name"):
        if isinstance(reference.value, dict) and reference[field].value in (None, ""):
            found.required(reference[field])
    if (workload := index_keys.target_of_autoscaler(autoscaler)) is not None:
        place = reference["name"]
        scaled = (autoscaler.at("metadata.namespace").text or "", *workload)
        warn_of_other_scalers(_AUTOSCALER_GROUP, _AUTOSCALER_KIND, autoscaler, place, scaled, others, found)


# VariantAutoscaling: only warnings, about variants that planning has to leave out.
_VARIANT_GROUP, _VARIANT_KIND = "llmd.ai", "VariantAutoscaling"

ACCELERATOR_LABEL = "inference.optimization/acceleratorName"
SYSTEM_NAMESPACE = "workload-variant-autoscaler-system"
"""The namespace of the planner's ConfigMaps if the variant's own has none of the name."""

_SCALABLE = (("apps", "Deployment"), ("apps", "StatefulSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"))


def check_variant(variant: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a VariantAutoscaling."""
    _check_identity(variant, found)
    parameters = variant.at("spec.variantProfile.perfParms")
    _check_numbers(parameters["decodeParms"], ("alpha", "beta"), found)
    _check_numbers(parameters["prefillParms"], ("gamma", "delta"), found)
    _check_objective(variant, others, found)
    _check_same_workload(variant, others, found)
    annotations = variant.at("metadata.annotations")
    warn_of_own("VariantAutoscalings", annotations, marks.OF_VARIANTS, found)
    asked = annotations.key(marks.ACTUATE)
    if asked.text not in (None, marks.DIRECT):
        found.warn(asked, f'is not "{marks.DIRECT}": replicas are left to others, who scale by gauges')


def _check_identity(variant: FieldCursor, found: Findings) -> None:
    spec = variant["spec"]
    model, kind, count = spec["modelID"].text, spec["accelerator"].text, spec["acceleratorCount"].integer
    if model and kind and count is not None:
        expected = f"{model}-{kind}-{count}"
        if spec["variantID"].text not in (None, expected):
            told = f'modelID, accelerator and acceleratorCount make "{expected}"; metrics go by variantID'
            found.warn(spec["variantID"], told)
    label = variant.at("metadata.labels").key(ACCELERATOR_LABEL)
    if label.text is not None and kind is not None and label.text != kind:
        found.warn(label, f'"{label.text}" is another accelerator than spec.accelerator, which is "{kind}"')


def _check_numbers(parameters: FieldCursor, names: tuple[str, ...], found: Findings) -> None:
    if not isinstance(parameters.value, dict):
        return
    for name in names:
        number = parameters.key(name)
        if not number.present:
            told = f'has no "{name}": the variant is left out of planning'
            found.warn(parameters, told)
        elif number.text is not None and not _is_number(number.text):
            told = f'"{number.text}" is not a number of milliseconds: the variant is left out of planning'
            found.warn(number, told)


def _is_number(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value >= 0


def _check_objective(variant: FieldCursor, others: View, found: Findings) -> None:
    reference = variant.at("spec.sloClassRef")
    name, key = reference["name"], reference["key"]
    if not name.text:
        return
    namespace = variant.at("metadata.namespace").text or ""
    for place in (namespace, SYSTEM_NAMESPACE):
        config = others.get("", "ConfigMap", ObjectKey(place, name.text))
        if config is not None:
            if key.text and key.text not in FieldCursor(config)["data"].mapping:
                told = f'ConfigMap {place}/{name.text} has no key "{key.text}": there is no objective'
                found.warn(key, told)
            return
    where = ObjectKey(namespace, name.text)
    found.warn(name, f"there is no ConfigMap {where}{others.among}; without an objective nothing is planned")


def _check_same_workload(variant: FieldCursor, others: View, found: Findings) -> None:
    """The scaled workload is the one with the name of the variant."""
    name = variant.at("metadata.name")
    if not name.text:
        return
    key = ObjectKey(variant.at("metadata.namespace").text or "", name.text)
    if all(others.get(group, kind, key) is None for group, kind in _SCALABLE):
        told = f"there is no Deployment, StatefulSet or LeaderWorkerSet {key}{others.among}"
        found.warn(name, f"{told}; nothing is scaled until there is")
    if not index_keys.is_direct(variant):
        return
    scaled = (key.namespace, "Deployment", name.text)
    warn_of_other_scalers(_VARIANT_GROUP, _VARIANT_KIND, variant, name, scaled, others, found)
