"""AutoscalingPolicyBinding: what is refused beyond its schema, and what its author should be told."""

from __future__ import annotations

from headgate.api.admission import index_keys, selectors, targets
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.api.admission.targets import ScalingTarget
from headgate.api.meta import ObjectKey

__all__ = ["check", "warn_of_other_scalers"]

GROUP, KIND = "registry.volcano.sh", "AutoscalingPolicyBinding"


def check(binding: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an AutoscalingPolicyBinding."""
    spec = binding["spec"]
    _check_policy(binding, spec.at("policyRef.name"), others, found)
    scaling, params = spec["scalingConfiguration"], spec["optimizerConfiguration"]["params"]
    for place in (scaling, *params.items()):
        if isinstance(place.value, dict):
            _check_bounds(place, found)
            _check_target(place["target"], found)
    seen: dict[tuple[str, str], ScalingTarget] = {}
    for target in targets.of_binding(binding):
        if target.workload in seen:
            told = f"is the target of {seen[target.workload].place.label} already"
            found.warn(target.reference["name"], f'"{target.workload[1]}" {told}')
            continue
        seen[target.workload] = target
        _check_workload(binding, target, others, found)
    costs = [each["cost"].integer for each in params.items()]
    if len(costs) > 1 and not any(costs):
        found.warn(params, "every cost is 0: nothing tells which target is cheaper")


def _check_policy(binding: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    if not name.text:
        return
    key = ObjectKey(binding.at("metadata.namespace").text or "", name.text)
    if others.get(GROUP, "AutoscalingPolicy", key) is not None:
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
    namespace = binding.at("metadata.namespace").text or ""
    elsewhere = reference["namespace"]
    if elsewhere.text and elsewhere.text != namespace:
        told = f'"{elsewhere.text}" is ignored: the target is looked for in namespace {namespace}'
        found.warn(elsewhere, told)
    group = targets.group_of(reference)
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
    warn_of_other_scalers(GROUP, KIND, binding, reference["name"], target.workload, others, found)


def warn_of_other_scalers(
    group: str,
    kind: str,
    obj: FieldCursor,
    place: FieldCursor,
    workload: tuple[str, str],
    others: View,
    found: Findings,
) -> None:
    """Warns of another object that decides the replicas of the same workload."""
    namespace, own = obj.at("metadata.namespace").text or "", obj.at("metadata.name").text or ""
    for other in others.filed(index_keys.IndexKey(index_keys.SCALES, (namespace, *workload)))[:4]:
        if (other.group, other.kind, other.name) != (group, kind, own):
            told = f"{other} decides how many replicas {workload[0]} {namespace}/{workload[1]} has as well"
            found.warn(place, f"{told}; the older one is followed")
