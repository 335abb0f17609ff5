"""The outcome of a pass, with everything that explains it."""

from __future__ import annotations

from typing import NamedTuple

from headgate.autoscaling.forecast import Outlook
from headgate.autoscaling.recommendation import MetricView

__all__ = ["Decision", "sentence"]


class Decision(NamedTuple):
    """`desired` replicas are to be written; if they are the `current` ones, nothing is."""

    desired: int
    current: int
    recommended: int | None
    """Replicas that the metrics ask for, before windows, rates and bounds; None if nothing was measured."""
    metric: str
    """The metric that decided ("" if none did), its value (a sum or a mean) and its target per replica."""
    value: float | None
    target: float | None
    rule: str
    """What bounded the recommendation: "", Tolerance, NotReady, MetricMissing, StabilizationWindow, Rate,
    Panic, Minimum, Maximum, Forecast, Zero or Waking."""
    is_panic: bool
    panic_until: float | None
    metrics: tuple[MetricView, ...]
    message: str
    """One sentence: what is done, and why."""
    outlook: Outlook | None = None
    """None before a replica was seen to start, since nobody knows how far to look ahead."""


def sentence(
    current: int, desired: int, recommended: int | None, rule: str, deciding: MetricView | None
) -> str:
    """One sentence for people: what is done, and why."""
    if desired == current:
        action = f"Stay at {_replicas(current)}"
    else:
        action = f"Scale {'up' if desired > current else 'down'} from {current} to {_replicas(desired)}"
    reasons = [reason for reason in (_measured(deciding), _bounded(rule, recommended, desired)) if reason]
    return f"{action}: {'; '.join(reasons)}." if reasons else f"{action}."


def _measured(view: MetricView | None) -> str:
    if view is None or view.value is None or view.needed is None:
        return ""
    kind = "on average" if view.is_ratio else "in total"
    needed = f"{view.needed:.4g}"
    text = f"{view.name} is {view.value:.4g} {kind} with a target of {view.target:.4g}, enough for {needed}"
    if view.missing:
        text += f", with {view.missing} not measured"
    return text


_REASONS = {
    "Tolerance": "the change is within the tolerance",
    "NotReady": "replicas that are starting will take load from the others",
    "MetricMissing": "a metric could not be measured, so nothing is removed",
    "StabilizationWindow": "{recommended} must have been recommended for the whole stabilization window",
    "Rate": "{recommended} would change faster than the policy allows",
    "Panic": "panic mode removes nothing and limits growth, {recommended} is recommended",
    "Minimum": "this is the minimum",
    "Maximum": "this is the maximum, {recommended} is recommended",
    "Forecast": "the forecast asks for {recommended} by the time that new replicas are ready",
    "Zero": "no request comes",
    "Waking": "a request waits",
}


def _bounded(rule: str, recommended: int | None, desired: int) -> str:
    return (
        _REASONS[rule].format(recommended=recommended if recommended is not None else desired) if rule else ""
    )


def _replicas(number: int) -> str:
    return f"{number} replica" if number == 1 else f"{number} replicas"
