"""What only the manifest as written shows, before defaults hide it: weights for some and not for others."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.api import gie_v1alpha1, kthena_networking, kthena_registry
from headgate.api.admission.findings import Findings
from headgate.api.admission.place import Place

__all__ = ["warnings"]


def warnings(obj: dict[str, Any]) -> list[str]:
    """Warnings about an object with apiVersion and kind; to be asked before its defaults are filled in."""
    kind = obj.get("kind")
    if kind not in _KINDS:
        return []
    found = Findings()
    spec = Place(obj)["spec"]
    group, _, _ = str(obj.get("apiVersion", "")).rpartition("/")
    match group, kind:
        case "inference.networking.x-k8s.io", "InferenceModel":
            _check(spec["targetModels"], gie_v1alpha1.TargetModel, "weight", found)
        case "networking.volcano.sh", "ModelRoute":
            for rule in spec["rules"].items():
                _check(rule["targetModels"], kthena_networking.TargetModel, "weight", found)
        case "registry.volcano.sh", "Model":
            _check(spec["backends"], kthena_registry.ModelBackend, "routeWeight", found)
    return found.warnings


_KINDS = ("InferenceModel", "ModelRoute", "Model")


def _check(items: Place, part: type[msgspec.Struct], name: str, found: Findings) -> None:
    """A weight of 10 beside one that is left out means 10 to 100, or 10 to 1, and never 10 to 90."""
    weights = [item[name] for item in items.items() if isinstance(item.value, dict)]
    unset = [weight for weight in weights if not weight.present]
    if len(unset) == len(weights):
        return
    default = next(field.default for field in msgspec.structs.fields(part) if field.encode_name == name)
    for weight in unset:
        found.warn(weight, f"is not set and counts {default} beside those that are: set all of them, or none")
