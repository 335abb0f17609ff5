"""The outcome of a pass, with everything that explains it."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.autoscaling.forecast import Outlook
from headgate.autoscaling.recommendation import MetricView

_LARGEST_WHOLE: Final = 1e15
"""Larger numbers are shown with an exponent."""

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
    held_until: float | None = None
    """When the rule StabilizationWindow, Rate, Panic or Zero can allow more, at the earliest."""


def sentence(
    current: int,
    desired: int,
    recommended: int | None,
    rule: str,
    deciding: MetricView | None,
    outlook: Outlook | None = None,
) -> str:
    """One sentence for people: what is done, and why."""
    if desired == current:
        action = f"Stay at {_replicas(current)}"
    else:
        action = f"Scale {'up' if desired > current else 'down'} from {current} to {_replicas(desired)}"
    measured = _measured(deciding)
    reason = _reason(current, desired, recommended, rule, deciding, outlook)
    reasons = "; ".join(filter(None, (measured, reason)))
    return f"{action}: {reasons}." if reasons else f"{action}."


def _measured(view: MetricView | None) -> str:
    if view is None or view.value is None or view.needed is None:
        return ""
    kind = "on average" if view.is_ratio else "in total"
    need = f"which needs {_figure(view.needed, 3)} at {_figure(view.target, 4)} each"
    missing = f", with {view.missing} not measured" if view.missing else ""
    return f"{view.name} is {_figure(view.value, 4)} {kind}, {need}{missing}"


def _reason(
    current: int,
    desired: int,
    recommended: int | None,
    rule: str,
    deciding: MetricView | None,
    outlook: Outlook | None,
) -> str:
    """Why it is not the recommended number, or for what besides metrics it is."""
    match rule:
        case "Tolerance":
            return "the change is within the tolerance"
        case "NotReady":
            return "replicas are still starting"
        case "MetricMissing":
            return _missing(deciding)
        case "StabilizationWindow":
            other = "more" if (recommended or 0) < current else "fewer"
            return f"{recommended} recommended, but {other} within the stabilization window"
        case "Rate":
            return f"{recommended} recommended, but the rate allows {desired} for now"
        case "Panic" if (recommended or 0) < current:
            return "panic mode removes no replica"
        case "Panic":
            return f"{recommended} recommended, but panic mode allows {desired} for now"
        case "Minimum" | "Maximum":
            limit = f"the {rule.lower()} is {desired}"
            return limit if recommended is None else f"{recommended} recommended, but {limit}"
        case "Forecast" if outlook is not None:
            source = "trend" if outlook.method == "trend" else "day before"
            return (
                f"by the {source}, {_figure(outlook.needed, 3)} will be needed in {outlook.horizon_s:.0f} s"
            )
        case "Zero" if desired > 0:
            return "the last replica goes only after the grace period without requests"
        case "Zero":
            return "no request came for the grace period" if current else "no request waits"
        case "Waking":
            return "a request waits"
        case _:
            return ""


def _missing(deciding: MetricView | None) -> str:
    if deciding is None:
        return "no metric could be measured"
    if deciding.rule == "MetricMissing":
        return "what was not measured could change the direction"
    return "another metric could not be measured, so no replica is removed"


def _figure(number: float, digits: int) -> str:
    """With so many digits, or as a whole number: people read no exponents."""
    return f"{number:.0f}" if 10**digits <= number < _LARGEST_WHOLE else f"{number:.{digits}g}"


def _replicas(number: int) -> str:
    return f"{number} replica" if number == 1 else f"{number} replicas"
