"""The rules for metadata of all kinds, with Kubernetes' messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.api.admission import names
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings

__all__ = ["check", "check_labels"]

ANNOTATIONS_BYTES = 256 * 1024

_FORM_OF_NAME: dict[tuple[str, str], Callable[[str], Iterator[str]]] = {
    ("", "Namespace"): names.dns_label,
    ("", "Service"): names.service_name,
}
"""By group and kind; all others are subdomains."""


def check(group: str, kind: str, meta: FieldCursor, found: Findings) -> None:
    """Validate the metadata of an object of that kind, which has a name already or none at all."""
    _check_name(_FORM_OF_NAME.get((group, kind), names.subdomain), meta, found)
    check_labels(meta["labels"], found)
    _check_annotations(meta["annotations"], found)
    _check_owners(meta["ownerReferences"], found)
    finalizers = meta["finalizers"]
    for finalizer in finalizers.items():
        for complaint in names.qualified_name(finalizer.text or ""):
            found.invalid(finalizers, complaint, finalizer.value)


def check_labels(labels: FieldCursor, found: Findings) -> None:
    """Validate keys and values of labels; the errors are at the map, and show the key or value."""
    for key, value in labels.mapping.items():
        if not isinstance(value, str) or names.is_label(key, value):
            continue
        for complaint in names.qualified_name(key):
            found.invalid(labels, complaint, key)
        for complaint in names.label_value(value):
            found.invalid(labels, complaint, value)


def _check_name(form: Callable[[str], Iterator[str]], meta: FieldCursor, found: Findings) -> None:
    prefix = meta["generateName"].text
    if prefix:
        is_dashed = len(prefix) > 1 and prefix.endswith("-")
        # As in Kubernetes, so that it may be as long as the name of a ReplicaSet, and a dash.
        for complaint in form(f"{prefix[:-2]}a" if is_dashed else prefix):
            found.invalid(meta["generateName"], complaint)
    name = meta["name"]
    if not name.text:
        found.required(name, "name or generateName is required")
        return
    for complaint in form(name.text):
        found.invalid(name, complaint)


def _check_annotations(annotations: FieldCursor, found: Findings) -> None:
    for key in annotations.mapping:
        for complaint in names.qualified_name(key.lower()):
            found.invalid(annotations, complaint, key)
    if sum(len(key) + len(value) for key, value in annotations.texts.items()) > ANNOTATIONS_BYTES:
        found.too_long(annotations, f"may not be more than {ANNOTATIONS_BYTES} bytes")


def _check_owners(owners: FieldCursor, found: Findings) -> None:
    controllers = []
    for owner in owners.items():
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner[field].text:
                found.invalid(owner[field], f"{field} must not be empty", "")
        if owner["controller"].value is True:
            controllers.append(owner["name"].text or "")
    if len(controllers) > 1:
        detail = (
            f'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        found.invalid(owners, detail, controllers)
