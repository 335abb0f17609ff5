"""An AutoscalingPolicy as numbers: durations in seconds, quantities as floats, every default filled in."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from headgate.api.kthena_registry import (
    AutoscalingPolicyMetric,
    AutoscalingPolicyPanicPolicy,
    AutoscalingPolicySpec,
    AutoscalingPolicyStablePolicy,
)
from headgate.kubeschema import duration, quantity

__all__ = ["Bounds", "MetricTarget", "Panic", "Policy", "Rate", "compile_policy"]

_SHOWN: Final = 64
"""Characters of a value in an error."""
_UP_WINDOW_S, _DOWN_WINDOW_S = 0.0, 300.0


class MetricTarget(NamedTuple):
    """The value that each replica should have of a metric, above 0."""

    name: str
    value: float


class Rate(NamedTuple):
    """How fast replicas may come or go: at most `instances` or `percent` of them in `period_s`.

    `select` is "Or" (the larger change is allowed) or "And" (the smaller); anything else allows every
    change, as does a period of 0.
    """

    instances: int = 1
    percent: int = 100
    period_s: float = 15.0
    select: str = "Or"
    window_s: float = 0.0
    """How long a change must have been recommended before it is made."""


class Panic(NamedTuple):
    """How fast replicas may come in a surge: `percent` of them in `period_s`.

    Panic begins when `threshold_percent` of the current replicas are recommended, and ends `hold_s` after
    that was last so. A hold of 0 turns it off.
    """

    percent: int = 1000
    period_s: float = 0.0
    threshold_percent: int = 200
    hold_s: float = 60.0


class Policy(NamedTuple):
    metrics: tuple[MetricTarget, ...]
    tolerance_percent: float = 10.0
    up: Rate = Rate()
    down: Rate = Rate(window_s=_DOWN_WINDOW_S)
    panic: Panic | None = None


class Bounds(NamedTuple):
    """Fewest and most replicas. A minimum of 0 is used only when the target was idle for `zero_after_s`;
    without this time, one replica always stays."""

    minimum: int
    maximum: int
    zero_after_s: float | None = None


def compile_policy(spec: AutoscalingPolicySpec) -> Policy:
    """Raises ValueError if a duration or quantity cannot be read or is out of range: the schema rules out
    most of that, but the one in the cluster may be of another version."""
    behavior = spec.behavior
    panic = behavior.scale_up.panic_policy
    return Policy(
        metrics=tuple(_target(index, metric) for index, metric in enumerate(spec.metrics)),
        tolerance_percent=float(spec.tolerance_percent),
        up=_rate(behavior.scale_up.stable_policy, _UP_WINDOW_S),
        down=_rate(behavior.scale_down, _DOWN_WINDOW_S),
        panic=_panic(panic) if panic is not None else None,
    )


def _target(index: int, metric: AutoscalingPolicyMetric) -> MetricTarget:
    value = float(quantity.parse(metric.target_value))
    if not 0 < value < math.inf:
        told = str(metric.target_value)[:_SHOWN]
        raise ValueError(f"metrics[{index}].targetValue is {told}: it must be above 0 and less than 1e308")
    return MetricTarget(metric.metric_name, value)


def _rate(stable: AutoscalingPolicyStablePolicy, window_s: float) -> Rate:
    window = stable.stabilization_window
    return Rate(
        instances=stable.instances,
        percent=stable.percent,
        period_s=duration.parse(stable.period),
        select=stable.select_policy,
        window_s=window_s if window is None else duration.parse(window),
    )


def _panic(panic: AutoscalingPolicyPanicPolicy) -> Panic:
    return Panic(
        percent=panic.percent,
        period_s=duration.parse(panic.period),
        threshold_percent=panic.panic_threshold_percent,
        hold_s=duration.parse(panic.panic_mode_hold),
    )
