"""AutoscalingPolicy: defaults that a schema cannot express, and warnings."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.api import kthena_registry
from headgate.api.admission import durations
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check", "check_spec", "default", "default_spec"]

_STABLE_DEFAULTS: dict[str, Any] = {
    field.encode_name: field.default
    for field in msgspec.structs.fields(kthena_registry.AutoscalingPolicyStablePolicy)
    if field.default is not None
}


def default(obj: dict[str, Any]) -> None:
    """Fill in the defaults of an AutoscalingPolicy."""
    if isinstance(obj.get("spec"), dict):
        default_spec(obj["spec"])


def default_spec(spec: dict[str, Any]) -> None:
    """Complete both stable policies, even if the whole block is missing. Models embed such a spec as well.

    A schema can only default the fields of an existing block, and the default of a stabilization window
    depends on the direction: 0s up, 5m down. Without a panicPolicy there is no panic mode.
    """
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
    """The warnings about a policy's spec, which Models embed as well."""
    _check_metrics(spec["metrics"], found)
    if spec["tolerancePercent"].integer == 100:
        told = "100 tolerates every change but a doubling: replicas never go down, unless to 0"
        found.warn(spec["tolerancePercent"], told)
    behavior = spec["behavior"]
    _check_stable(behavior.at("scaleUp.stablePolicy"), "added", found)
    _check_stable(behavior["scaleDown"], "removed", found)
    panic = behavior.at("scaleUp.panicPolicy")
    if durations.nanoseconds(panic["panicModeHold"]) == 0:
        found.warn(panic["panicModeHold"], "is 0s: panic mode never begins")
    elif panic["percent"].integer == 0:
        found.warn(panic["percent"], "is 0: in panic mode no replicas are added")


def _check_metrics(metrics: FieldCursor, found: Findings) -> None:
    for metric in metrics.items():
        if metric["metricName"].value == "":
            found.warn(metric["metricName"], "is empty: no metric is called that")


def _check_stable(policy: FieldCursor, changed: str, found: Findings) -> None:
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
