"""AutoscalingPolicy: defaults that a schema cannot express, errors, and warnings."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.api import kthena_registry
from headgate.api.admission import durations
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.kubeschema import quantity

__all__ = ["check", "check_spec", "default"]

LONGEST = "30m"

_STABLE_DEFAULTS: dict[str, Any] = {
    field.encode_name: field.default
    for field in msgspec.structs.fields(kthena_registry.AutoscalingPolicyStablePolicy)
    if field.default is not None
}


def default(obj: dict[str, Any]) -> None:
    """Complete both stable policies, even if the whole block is missing.

    A schema can only default the fields of an existing block, and the default of a stabilization window
    depends on the direction: 0s up, 5m down. Without a panicPolicy there is no panic mode.
    """
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for path, window in ((("behavior", "scaleUp", "stablePolicy"), "0s"), (("behavior", "scaleDown"), "5m")):
        block = _block(spec, path)
        if block is not None:
            for name, value in {**_STABLE_DEFAULTS, "stabilizationWindow": window}.items():
                if block.get(name) is None:
                    block[name] = value


def _block(spec: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    """The map at the path, created if it is absent; None if another type is in the way."""
    block = spec
    for name in path:
        if block.get(name) is None:
            block[name] = {}
        inner: object = block[name]
        if not isinstance(inner, dict):
            return None
        block = inner
    return block


def check(policy: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for an AutoscalingPolicy."""
    check_spec(policy["spec"], found)


def check_spec(spec: FieldCursor, found: Findings) -> None:
    """The rules for a policy's spec, which Models embed as well."""
    _check_metrics(spec["metrics"], found)
    if spec["tolerancePercent"].integer == 100:
        told = "100 tolerates every change but a doubling: replicas never go down, unless to 0"
        found.warn(spec["tolerancePercent"], told)
    behavior = spec["behavior"]
    _check_stable(behavior.at("scaleUp.stablePolicy"), "added", found)
    _check_stable(behavior["scaleDown"], "removed", found)
    panic = behavior.at("scaleUp.panicPolicy")
    for field in ("period", "panicModeHold"):
        durations.check(panic[field], found, longest=LONGEST)
    if durations.nanoseconds(panic["panicModeHold"]) == 0:
        found.warn(panic["panicModeHold"], "is 0s: panic mode never begins")
    elif panic["percent"].integer == 0:
        found.warn(panic["percent"], "is 0: in panic mode no replicas are added")


def _check_metrics(metrics: FieldCursor, found: Findings) -> None:
    seen: set[str] = set()
    for metric in metrics.items():
        name, target = metric["metricName"], metric["targetValue"]
        if name.text is not None and name.text in seen:
            found.duplicate(name)
        elif name.text is not None:
            seen.add(name.text)
        if name.value == "":
            found.warn(name, "is empty: no metric is called that")
        _check_target(target, found)


def _check_target(target: FieldCursor, found: Findings) -> None:
    value = target.text if target.integer is None else target.integer
    if value is None:
        return
    try:
        if quantity.parse(value).unscaled <= 0:
            found.invalid(target, "must be greater than 0")
    except quantity.QuantityError as error:
        found.invalid(target, str(error))


def _check_stable(policy: FieldCursor, changed: str, found: Findings) -> None:
    for field in ("period", "stabilizationWindow"):
        durations.check(policy[field], found, longest=LONGEST)
    if durations.nanoseconds(policy["period"]) == 0:
        found.warn(policy["period"], "is 0s: instances and percent limit nothing")
        return
    instances, percent = policy["instances"], policy["percent"]
    either = policy["selectPolicy"].text != "And"
    if instances.integer == 0 and percent.integer == 0:
        found.warn(policy, f"instances and percent are 0: replicas are never {changed}")
    elif not either and (instances.integer == 0 or percent.integer == 0):
        least = instances if instances.integer == 0 else percent
        found.warn(least, f"is 0, and with selectPolicy And the smaller counts: replicas are never {changed}")
