"""VariantAutoscaling: everything here is legal, and left out of planning if it cannot be planned with."""

from __future__ import annotations

import math

from headgate.api.admission import bindings
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.api.meta import ObjectKey

__all__ = ["check"]

GROUP, KIND = "llmd.ai", "VariantAutoscaling"

ACCELERATOR_LABEL = "inference.optimization/acceleratorName"
SYSTEM_NAMESPACE = "workload-variant-autoscaler-system"
"""Where the ConfigMaps of the planner are if the variant's namespace has none of the name."""

_SCALABLE = (("apps", "Deployment"), ("apps", "StatefulSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"))


def check(variant: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a VariantAutoscaling."""
    _check_identity(variant, found)
    parameters = variant.at("spec.variantProfile.perfParms")
    _check_numbers(parameters["decodeParms"], ("alpha", "beta"), found)
    _check_numbers(parameters["prefillParms"], ("gamma", "delta"), found)
    _check_objective(variant, others, found)
    _check_workload(variant, others, found)


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


def _check_workload(variant: FieldCursor, others: View, found: Findings) -> None:
    """The workload that is scaled is the one with the name of the variant."""
    name = variant.at("metadata.name")
    if not name.text:
        return
    key = ObjectKey(variant.at("metadata.namespace").text or "", name.text)
    if all(others.get(group, kind, key) is None for group, kind in _SCALABLE):
        told = f"there is no Deployment, StatefulSet or LeaderWorkerSet {key}{others.among}"
        found.warn(name, f"{told}; nothing is scaled until there is")
    bindings.warn_of_other_scalers(GROUP, KIND, variant, name, ("Deployment", name.text), others, found)
