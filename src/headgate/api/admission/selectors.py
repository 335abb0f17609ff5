"""Label selectors: Kubernetes' rules, matching, and pools that share Pods."""

from __future__ import annotations

from headgate.api.admission import index_keys, names
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import MANY, Filed, View
from headgate.api.meta import ObjectKey

__all__ = ["SAME_PODS", "check", "matches", "warn_of_labels", "warn_of_overlaps"]

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def check(selector: FieldCursor, found: Findings) -> None:
    """Validate a meta/v1 LabelSelector."""
    labels = selector["matchLabels"]
    for key, value in labels.texts.items():
        for complaint in names.qualified_name(key):
            found.invalid(labels, complaint, key)
        for complaint in names.label_value(value):
            found.invalid(labels.key(key), complaint)
    for requirement in selector["matchExpressions"].items():
        _check_requirement(requirement, found)


def _check_requirement(requirement: FieldCursor, found: Findings) -> None:
    operator, values = requirement["operator"].text, requirement["values"]
    if operator in _WITH_VALUES and not values.value:
        found.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values.value:
        found.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator is not None and operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        found.invalid(requirement["operator"], "not a valid selector operator")
    for complaint in names.qualified_name(requirement["key"].text or ""):
        found.invalid(requirement["key"], complaint)
    for value in values.items():
        for complaint in names.label_value(value.text or ""):
            found.invalid(value, complaint)


def matches(selector: FieldCursor, labels: dict[str, str]) -> bool:
    """Whether an object with these labels is selected; for a valid selector."""
    if any(labels.get(key) != value for key, value in selector["matchLabels"].texts.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector["matchExpressions"].items())


def _holds(requirement: FieldCursor, labels: dict[str, str]) -> bool:
    key, values = requirement["key"].text, [value.text for value in requirement["values"].items()]
    match requirement["operator"].text:
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
    return True


def warn_of_labels(labels: FieldCursor, found: Findings) -> None:
    """Warn of labels that no object can have, since the API server would reject it."""
    for key, place in labels.entries():
        value = place.text
        if value is None:
            continue
        if any(names.qualified_name(key)):
            found.warn(place, f"selects nothing: {key!r} is not the key of a label")
        elif any(names.label_value(value)):
            found.warn(place, f"selects nothing: {value!r} is not the value of a label")


SAME_PODS = "the same Pods"
"""Ends a warning that applies to each pool with the selector."""

_TOLD = 3
"""Pools named in a warning."""

_LABELS_OF = {
    ("networking.volcano.sh", "ModelServer"): "spec.workloadSelector.matchLabels",
    ("inference.networking.x-k8s.io", "InferencePool"): "spec.selector",
    ("inference.networking.k8s.io", "InferencePool"): "spec.selector.matchLabels",
}


def warn_of_overlaps(
    group: str, kind: str, pool: FieldCursor, labels: FieldCursor, others: View, found: Findings
) -> None:
    """Warn of a pool of the same kind that certainly shares Pods: one selector contains the other.

    Selectors of which neither contains the other may share Pods too, but that depends on the Pods.
    """
    own = labels.texts.items()
    if not own:
        return
    key = ObjectKey(pool.at("metadata.namespace").text or "", pool.at("metadata.name").text or "")
    same: list[str] = []
    wider: list[str] = []
    narrower: list[str] = []
    candidates = _candidates(kind, key, labels.texts, others)
    for other in candidates:
        if (other.kind, other.key) == (kind, key):  # of either group: they are two versions of one pool
            continue
        obj = others.get(other.group, other.kind, other.key)
        theirs = FieldCursor(obj).at(_LABELS_OF[other.group, other.kind]).texts.items() if obj else None
        if theirs and own == theirs:
            same.append(str(other))
        elif theirs and theirs < own:
            wider.append(str(other))
        elif theirs and own < theirs:
            narrower.append(str(other))
    # One warning per relation: many pools with one selector would otherwise have one per pair.
    are_all = len(candidates) < MANY
    if same:
        found.warn(labels, f"{_listed(same, are_all=are_all)} {_verb(same)} {SAME_PODS}")
    if wider:
        found.warn(labels, f"{_listed(wider, are_all=are_all)} {_verb(wider)} all of these Pods as well")
    if narrower:
        found.warn(labels, f"all Pods of {_listed(narrower, are_all=are_all)} are selected as well")


def _verb(names: list[str]) -> str:
    return "selects" if len(names) == 1 else "select"


def _listed(names: list[str], *, are_all: bool) -> str:
    """The first few, and the number of the rest, if it is known."""
    if len(names) <= _TOLD:
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    rest = f"{len(names) - _TOLD} others" if are_all else "others"
    return f"{', '.join(names[:_TOLD])} and {rest}"


def _candidates(kind: str, key: ObjectKey, labels: dict[str, str], others: View) -> list[Filed]:
    """The oldest few that share a label, which a selector inside the other always does."""
    under = [
        each for entry in index_keys.selection(kind, key.namespace, labels) for each in others.filed(entry)
    ]
    return list(dict.fromkeys(under))[:MANY]
