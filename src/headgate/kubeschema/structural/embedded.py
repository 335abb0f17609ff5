"""Constraints of an object inside another one (`x-kubernetes-embedded-resource`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from headgate.kubeschema.structural.errors import FieldError, MapKey, Path, keyed

__all__ = ["faults"]

_KIND: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND_COMPLAINT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_METADATA: Final[dict[str, tuple[type, str]]] = {
    **dict.fromkeys(("name", "generateName", "namespace"), (str, "a string")),
    **dict.fromkeys(("labels", "annotations"), (dict, "a map of strings")),
    **dict.fromkeys(("finalizers", "ownerReferences"), (list, "a list")),
}


def faults(resource: dict[str, Any], path: Path) -> Iterator[FieldError]:
    """Errors of an embedded object: apiVersion and kind are required; metadata, if present, must be valid."""
    for name, complaint in (("apiVersion", _version_complaint), ("kind", _kind_complaint)):
        field, value = keyed((path, name)), resource.get(name)
        if value is None:
            yield FieldError("FieldValueRequired", field, "must not be empty")
        elif not isinstance(value, str):
            yield FieldError("FieldValueInvalid", field, "must be a string", value)
        elif problem := complaint(value):
            yield FieldError("FieldValueInvalid", field, problem, value)
    if (metadata := resource.get("metadata")) is not None:
        yield from _metadata_faults(metadata, (path, "metadata"))


def _version_complaint(api_version: str) -> str:
    if not api_version:
        return "must not be empty"
    return f"unexpected GroupVersion string: {api_version}" if api_version.count("/") > 1 else ""


def _kind_complaint(kind: str) -> str:
    if not kind:
        return "must not be empty"
    return "" if _KIND.fullmatch(kind.lower()) else _KIND_COMPLAINT


def _metadata_faults(metadata: Any, path: Path) -> Iterator[FieldError]:
    if not isinstance(metadata, dict):
        yield FieldError("FieldValueInvalid", keyed(path), "must be an object", metadata)
        return
    for field, (wanted, words) in _METADATA.items():
        value = metadata.get(field)
        if value is not None and not isinstance(value, wanted):
            yield FieldError("FieldValueInvalid", keyed((path, field)), f"must be {words}", value)
        elif isinstance(value, dict):
            yield from _text_faults(value, (path, field))
    if isinstance(name := metadata.get("name"), str):
        yield from _name_faults(name, (path, "name"))


def _text_faults(values: dict[str, Any], path: Path) -> Iterator[FieldError]:
    for key, value in values.items():
        if not isinstance(value, str):
            yield FieldError("FieldValueInvalid", keyed((path, MapKey(key))), "must be a string", value)


def _name_faults(name: str, path: Path) -> Iterator[FieldError]:
    """Errors of a name that cannot be a segment of a URL path."""
    if name in (".", ".."):
        yield FieldError("FieldValueInvalid", keyed(path), f"may not be '{name}'", name)
    for illegal in ("/", "%"):
        if illegal in name:
            yield FieldError("FieldValueInvalid", keyed(path), f"may not contain '{illegal}'", name)
