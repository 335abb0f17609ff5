"""InferencePool, InferenceModel and InferenceObjective: warnings."""

from __future__ import annotations

from headgate.api import marks
from headgate.api.admission import competing_routes, index_keys, references, selectors
from headgate.api.admission.annotations import (
    check_fallbacks,
    warn_of_misspelled_fallbacks,
    warn_of_own,
    warn_of_start,
    warn_of_tls,
    warn_of_weights,
)
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.index_keys import NAMED, IndexKey
from headgate.api.admission.references import Filed, View
from headgate.api.kthena_networking import CONNECTORS
from headgate.api.marks import InvalidAnnotationError, protocol
from headgate.api.meta import ObjectKey

__all__ = [
    "check_inference_model",
    "check_objective",
    "check_pool",
    "check_pool_reference",
    "check_pool_v1",
]

OLD_GROUP, GROUP = "inference.networking.x-k8s.io", "inference.networking.k8s.io"


def check_pool(pool: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an InferencePool of v1alpha1."""
    selector, port = pool.at("spec.selector"), pool.at("spec.targetPortNumber")
    if selector.value == {}:
        found.warn(selector, "is empty and selects nothing: set the labels of the Pods")
    selectors.warn_of_labels(selector, found)
    if port.integer == 0:
        found.warn(port, "0 is no port: no endpoint can be reached")
    _check_annotations(pool.at("metadata.annotations"), others, found)
    selectors.warn_of_overlaps(OLD_GROUP, "InferencePool", pool, selector, others, found)


def check_pool_v1(pool: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an InferencePool of v1."""
    labels = pool.at("spec.selector.matchLabels")
    selectors.warn_of_labels(labels, found)
    _check_picker(pool, others, found)
    _check_annotations(pool.at("metadata.annotations"), others, found)
    selectors.warn_of_overlaps(GROUP, "InferencePool", pool, labels, others, found)


def _check_annotations(annotations: FieldCursor, others: View, found: Findings) -> None:
    warn_of_own("InferencePools", annotations, marks.OF_INFERENCE_POOLS, found)
    warn_of_start(annotations, found)
    warn_of_weights(annotations, found)
    own = {name.strip() for name in annotations.texts.get(marks.MODELS, "").split(",")}
    check_fallbacks(annotations, own, None, others, found)
    if marks.SERVED_MODEL in annotations.texts and marks.MODELS not in annotations.texts:
        found.warn(annotations.key(marks.SERVED_MODEL), f"has no effect without {marks.MODELS}")
    _check_protocol(annotations, found)
    given = annotations.texts.get(marks.KV_CONNECTOR, CONNECTORS[0])
    if given not in CONNECTORS:
        told = f'"{given[:64]}" is none of {", ".join(CONNECTORS)}: that of the engine counts'
        found.warn(annotations.key(marks.KV_CONNECTOR), told)


def _check_protocol(annotations: FieldCursor, found: Findings) -> None:
    try:
        is_https = protocol(annotations.texts) == "https"
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no Pod gets requests")
        return
    needed = f"{marks.PROTOCOL} https"
    warn_of_tls(annotations, is_https=is_https, needed=needed, found=found)


def _check_picker(pool: FieldCursor, others: View, found: Findings) -> None:
    reference = pool.at("spec.endpointPickerRef")
    name = reference["name"]
    if not name.text or reference["group"].text or reference["kind"].text not in (None, "Service"):
        return
    key = ObjectKey(pool.at("metadata.namespace").text or "", name.text)
    service = others.get("", "Service", key)
    if service is None:
        refused = reference["failureMode"].text != "FailOpen"
        then = "refuse requests" if refused else "send requests to any endpoint"
        told = f"there is no Service {key}{others.among}; gateways that ask the picker {then} until there is"
        found.warn(name, told)
    elif FieldCursor(service).at("spec.type").text == "ExternalName":
        found.invalid(name, "must not be a Service of type ExternalName")


def check_inference_model(model: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an InferenceModel."""
    name, split = model.at("spec.modelName"), model.at("spec.targetModels")
    if not name.text:
        found.warn(name, "is empty: no request is for this object")
    check_pool_reference(model, others, found)
    _check_split(split, found)
    if name.text:
        _check_same_name(model, name, others, found)
        annotations = model.at("metadata.annotations")
        warn_of_misspelled_fallbacks("InferenceModels", annotations, found)
        check_fallbacks(annotations, {name.text}, None, others, found)


def check_objective(objective: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an InferenceObjective."""
    check_pool_reference(objective, others, found)


def check_pool_reference(obj: FieldCursor, others: View, found: Findings) -> None:
    """Warn of a `spec.poolRef` to a pool that does not exist, or cannot serve."""
    target = index_keys.pool_of(obj)
    reference = obj.at("spec.poolRef")
    if target is None:
        return
    namespace, group, name = target
    kind = reference["kind"].text
    if kind not in (None, "InferencePool") or group not in (OLD_GROUP, GROUP):
        told = f"{kind or 'InferencePool'} of group {group or 'core'} is no kind of pool that can serve"
        found.warn(reference, told)
        return
    key = ObjectKey(namespace, name)
    if others.get(group, "InferencePool", key) is not None:
        return
    other_group = GROUP if group == OLD_GROUP else OLD_GROUP
    told = f"there is no InferencePool {key} in group {group}{others.among}"
    elsewhere = [
        each for each in others.filed(IndexKey(NAMED, ("InferencePool", name))) if each.group == group
    ]
    if elsewhere:
        told = (
            f"there is no InferencePool {key}, but {elsewhere[0].key}: a pool serves only its own namespace"
        )
        found.warn(reference["name"], told)
    elif others.get(other_group, "InferencePool", key) is not None:
        found.warn(reference["name"], f"{told}, but there is one in {other_group}: set poolRef.group")
    else:
        found.warn(reference["name"], f"{told}; requests fail until there is")


def _check_split(split: FieldCursor, found: Findings) -> None:
    seen: dict[str, FieldCursor] = {}
    for target in split.items():
        name = target["name"]
        if not name.value and isinstance(target.value, dict):
            found.warn(name, "is empty: modelName is asked for")
        elif name.text is not None and name.text in seen:
            found.warn(name, f'"{name.text}" is {seen[name.text].label} already; their weights add up')
        elif name.text is not None:
            seen[name.text] = target
    weights = [target["weight"].integer for target in split.items()]
    if weights and all(weight == 0 for weight in weights):
        told = "the only weight is 0" if len(weights) == 1 else "every weight is 0"
        found.warn(split, f"{told}: the model name is reserved, and requests for it are refused")


def _check_same_name(model: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    text, pool = name.text or "", index_keys.pool_of(model)
    claims = others.filed(IndexKey(index_keys.POOL_MODEL, (*pool, text))) if pool is not None else []
    for other in references.others_than(model, claims)[:1]:
        if references.is_before(model, other):
            told = f'{other} has "{text}" in the same pool and is younger: it is not served (ModelNameInUse)'
        else:
            told = f'{other} has "{text}" in the same pool and is older: this one is not served'
            told += " (ModelNameInUse)"
        found.warn(name, told)
    for other in references.others_than(model, others.filed(IndexKey(index_keys.MODEL, (text,))))[:4]:
        if other.kind in ("ModelRoute", "Model"):
            found.warn(name, f'{other} is for "{text}" too and goes first: {_left_over(other, others)}')
        elif other not in claims:
            found.warn(
                name, f'{other} has "{text}" in another pool: the older is served while its pool exists'
            )


def _left_over(other: Filed, others: View) -> str:
    route = others.get(other.group, other.kind, other.key)
    rules = FieldCursor(route).at("spec.rules")
    if any(competing_routes.is_catch_all(rule) for rule in rules.items()):
        return "this InferenceModel gets no requests"
    return "this InferenceModel gets what no rule there matches"
