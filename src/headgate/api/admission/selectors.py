"""Selectors of labels: what Kubernetes refuses in them, and what they select."""

from __future__ import annotations

from headgate.api.admission import names
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings

__all__ = ["check", "matches", "warn_of_labels"]

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def check(selector: FieldCursor, found: Findings) -> None:
    """Judges a meta/v1 LabelSelector."""
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
    """Whether an object with these labels is selected; for a selector without errors."""
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
    """Warns of labels that no object can have, since the API server would refuse it."""
    for key, place in labels.entries():
        value = place.text
        if value is None:
            continue
        if any(names.qualified_name(key)):
            found.warn(place, f"selects nothing: {key!r} is not the key of a label")
        elif any(names.label_value(value)):
            found.warn(place, f"selects nothing: {value!r} is not the value of a label")
