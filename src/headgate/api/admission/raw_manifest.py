"""Rules that need the manifest before defaulting: weights for some items and not for others.

Such an InferenceModel is rejected if the original manifest is available; the rules of a definition, which see
an object with its defaults, cannot detect it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.api import gie_v1alpha1, kthena_networking, kthena_registry
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.kubeschema.structural import FieldError

__all__ = ["errors", "warnings"]


def errors(group: str, kind: str, said: object) -> list[FieldError]:
    """Errors in what a client sent: a whole manifest, or the fields of a patch."""
    if (group, kind) != (gie_v1alpha1.GROUP, "InferenceModel"):
        return []
    targets = FieldCursor(said).at("spec.targetModels")
    if not _unset(targets, "weight"):
        return []
    return [FieldError("FieldValueInvalid", str(targets), gie_v1alpha1.WEIGHTS_FOR_ALL)]


def warnings(obj: dict[str, Any]) -> list[str]:
    """Warnings about an object with apiVersion and kind; call it before defaults are filled in."""
    kind = obj.get("kind")
    if kind not in _KINDS:
        return []
    found = Findings()
    spec = FieldCursor(obj)["spec"]
    group, _, _ = str(obj.get("apiVersion", "")).rpartition("/")
    match group, kind:
        case gie_v1alpha1.GROUP, "InferenceModel":
            _check(spec["targetModels"], gie_v1alpha1.TargetModel, "weight", found)
        case "networking.volcano.sh", "ModelRoute":
            for rule in spec["rules"].items():
                _check(rule["targetModels"], kthena_networking.TargetModel, "weight", found)
        case "registry.volcano.sh", "Model":
            _check(spec["backends"], kthena_registry.ModelBackend, "routeWeight", found)
    return found.warnings


_KINDS = ("InferenceModel", "ModelRoute", "Model")


def _check(items: FieldCursor, part: type[msgspec.Struct], name: str, found: Findings) -> None:
    """Warn of missing weights: a weight of 10 beside a missing one means 10 to 100, or 10 to 1, never 10 to
    90."""
    default = next(field.default for field in msgspec.structs.fields(part) if field.encode_name == name)
    for weight in _unset(items, name):
        found.warn(weight, f"is not set and counts {default} beside those that are: set all of them, or none")


def _unset(items: FieldCursor, name: str) -> list[FieldCursor]:
    """The missing fields of this name, if other items have it."""
    fields = [item[name] for item in items.items() if isinstance(item.value, dict)]
    unset = [field for field in fields if not field.present]
    return unset if len(unset) < len(fields) else []
