"""AutoscalingPolicy: defaults that a schema cannot express, and warnings."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from headgate.api import kthena_registry
from headgate.api.admission import durations
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.api.signal_names import METRICS, PREFIX, QUERY_PREFIXES, RATIOS, WORK
from headgate.kubeschema import quantity

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
        name = metric["metricName"]
        if name.value == "":
            found.warn(name, "is empty: no metric is called that")
        elif name.text is not None:
            _check_name(name, name.text, found)
            _check_target(metric["targetValue"], name.text, found)


def _check_name(name: FieldCursor, text: str, found: Findings) -> None:
    if text.startswith(PREFIX) and text not in METRICS:
        known = [each.removeprefix(PREFIX) for each in METRICS]
        near = difflib.get_close_matches(text.removeprefix(PREFIX), known, 1)
        told = f"did you mean {PREFIX}{near[0]}?" if near else f"they are {', '.join(METRICS)}"
        found.warn(name, f'gateways have no signal "{text[:64]}"; {told}')
    for prefix in QUERY_PREFIXES:
        if text.startswith(prefix) and not text.removeprefix(prefix).strip():
            found.warn(name, f"has no query after {prefix}")


def _check_target(target: FieldCursor, name: str, found: Findings) -> None:
    if name not in RATIOS and name != WORK:
        return
    value = target.value
    try:
        is_reached = not isinstance(value, int | str) or quantity.parse(value) <= quantity.parse(1)
    except quantity.QuantityError:
        return
    if not is_reached:
        what = "is a share of 1" if name in RATIOS else "is 1 if a replica is busy all the time"
        found.warn(target, f"{name} {what}: more than 1 for each replica is too late")


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
