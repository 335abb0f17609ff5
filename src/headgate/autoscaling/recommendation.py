"""How many replicas the metrics ask for, before any limit on the change.

Each metric is compared with its target per replica; the metric that asks for most replicas decides. What
could not be measured never leads to fewer replicas than there are:

- a Pod without a value counts as one at its target when the others ask for fewer replicas, and as one
  without load when they ask for more;
- a Pod that is not ready is about to take load from the others: it counts when they ask for more;
- if these change the direction, nothing changes;
- a metric without any value has no opinion, and while there is such a metric, no other scales down.

The tolerance is around the current number: a change smaller than this percentage of it is not made. That is
little for a few replicas. So a single one of up to four goes only if the others have room for the noise of
the load, or it would be back in a moment: with a tolerance of 10 %, the second of two goes at a need of 0.8,
not of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from headgate.autoscaling.policy import MetricTarget, Policy
from headgate.autoscaling.samples import Observation, PodSample, Total

__all__ = ["MOST_REPLICAS", "MetricView", "Recommendation", "recommend", "rounded"]

MOST_REPLICAS = 1_000_000_000
_ROUNDING = 1e-9
_MARGIN = 2.0
"""Of a single replica that goes, in tolerances of one replica. The noise of a load grows with its root."""
_FEW = 3
"""Where more are left, the tolerance around all of them is enough."""
_LARGEST = 1e300
"""Of one Pod: larger values, which only a broken page has, count as this, so that sums are finite."""


class MetricView(NamedTuple):
    """One metric of a pass."""

    name: str
    target: float
    value: float | None = None
    """The sum over the replicas, or their mean if it `is_ratio`; None if nothing was measured."""
    is_ratio: bool = False
    needed: float | None = None
    """Replicas that would have the target value, not rounded."""
    desired: int | None = None
    rule: str = ""
    """Why `desired` is the current number although `needed` is not: Tolerance, NotReady or MetricMissing."""
    missing: int = 0
    unready: int = 0


class Recommendation(NamedTuple):
    desired: int | None
    """None if no metric was measured."""
    needed: float | None
    deciding: MetricView | None
    metrics: tuple[MetricView, ...]
    rule: str


def recommend(policy: Policy, observation: Observation) -> Recommendation:
    metrics = tuple(_assessed(policy, metric, observation) for metric in policy.metrics)
    deciding = max(
        (view for view in metrics if view.desired is not None),
        key=lambda view: (view.desired or 0, view.needed or 0.0),
        default=None,
    )
    if deciding is None or deciding.desired is None:
        return Recommendation(None, None, None, metrics, "MetricMissing")
    desired, rule = deciding.desired, deciding.rule
    if desired < observation.current and any(view.desired is None for view in metrics):
        desired, rule = observation.current, "MetricMissing"
    return Recommendation(desired, deciding.needed, deciding, metrics, rule)


def _assessed(policy: Policy, metric: MetricTarget, observation: Observation) -> MetricView:
    total = observation.totals.get(metric.name)
    if total is not None and _is_measured(total.value):
        view = _of_total(metric, total, observation)
    else:
        view = _of_pods(metric, observation.pods, observation.current)
    if view.needed is None or view.rule:
        return view
    current = observation.current
    desired = rounded(policy, view.needed, current)
    is_held = desired == current != whole(view.needed)
    return view._replace(desired=desired, rule="Tolerance" if is_held else "")


def rounded(policy: Policy, needed: float, current: int) -> int:
    """Whole replicas, or the current ones if the change is within the tolerance."""
    tolerance = policy.tolerance_percent / 100.0
    if abs(needed - current) < tolerance * current:
        return current
    desired = whole(needed)
    margin = _MARGIN * tolerance * math.sqrt(desired)
    if desired == current - 1 <= _FEW and needed > desired - margin + _ROUNDING:
        return current
    return desired


def whole(needed: float) -> int:
    """Whole replicas for it."""
    return math.ceil(min(needed, MOST_REPLICAS) - _ROUNDING)


def _of_total(metric: MetricTarget, total: Total, observation: Observation) -> MetricView:
    needed: float | None = min(total.value / metric.value, float(MOST_REPLICAS))
    if total.is_ratio:
        # A mean is over the replicas that serve. Those that start will take load from them.
        needed = needed * observation.ready if needed is not None and observation.ready > 0 else None
    unready = max(observation.current - observation.ready, 0)
    return MetricView(metric.name, metric.value, total.value, total.is_ratio, needed, unready=unready)


def _of_pods(metric: MetricTarget, pods: Iterable[PodSample], current: int) -> MetricView:
    name, target = metric
    measured, unready, unmeasured = [], 0, current
    for pod in pods:
        unmeasured -= 1
        if not pod.is_ready:
            unready += 1
        elif (value := pod.values.get(name)) is not None and _is_measured(value):
            measured.append(value)
    missing = max(unmeasured, 0) + (current - unmeasured - unready - len(measured))
    if not measured:
        return MetricView(name, target, missing=missing, unready=unready)
    total = math.fsum(min(value, _LARGEST) for value in measured)
    needed = min(total / target, float(MOST_REPLICAS))
    rule = ""
    if needed >= len(measured):
        if (missing or unready) and needed < current:
            rule = "NotReady" if unready else "MetricMissing"
    elif missing:
        needed += missing
        rule = "MetricMissing" if needed > current else ""
    desired = current if rule else None
    return MetricView(name, target, total, False, needed, desired, rule, missing, unready)


def _is_measured(value: float) -> bool:
    return 0.0 <= value < math.inf  # also false for NaN
