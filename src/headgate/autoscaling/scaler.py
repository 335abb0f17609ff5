"""A whole pass over one target: from what was observed to the number of replicas to write."""

from __future__ import annotations

import msgspec

from headgate.autoscaling import correction, zero
from headgate.autoscaling.decision import Decision, sentence
from headgate.autoscaling.forecast import Outlook
from headgate.autoscaling.history import History
from headgate.autoscaling.policy import Bounds, Policy
from headgate.autoscaling.recommendation import Recommendation, recommend, rounded
from headgate.autoscaling.samples import Observation

__all__ = ["decide", "settle"]


def decide(
    policy: Policy, bounds: Bounds, history: History, observation: Observation
) -> tuple[Decision, History]:
    """The decision, and the history for the next pass. `observation.now` should not go back between passes;
    if it does, windows are at most a little longer."""
    history = history.observed(observation)
    return settle(policy, bounds, history, observation, recommend(policy, observation))


def settle(
    policy: Policy, bounds: Bounds, history: History, observation: Observation, recommendation: Recommendation
) -> tuple[Decision, History]:
    """From a recommendation to a decision. `history` has observed the pass."""
    now, current = observation.now, observation.current
    outlook, history = _ahead(history, now, recommendation)
    floor = zero.fewest(bounds, observation)
    idle = zero.is_idle(bounds, observation)
    recommended, rule = recommendation.desired, recommendation.rule
    reactive = recommended
    if idle:
        reactive = recommended = 0
        rule = ""
    elif recommended is not None and outlook is not None:
        recommended, rule = _with_forecast(policy, current, recommended, rule, outlook)
    desired, until = current, None
    if recommended is not None and reactive is not None:
        wanted = min(max(recommended, floor), bounds.maximum)
        history = history.settled(now, current)
        history = correction.with_panic(policy, history, now, current, min(reactive, bounds.maximum))
        corrected = correction.correct(policy, history, now, current, wanted, is_idle=idle)
        history = history.with_recommendation(now, wanted)
        desired, rule, until = corrected.desired, corrected.rule or rule, corrected.until
    else:
        history = correction.with_panic(policy, history, now, current, current)
    desired, rule = _within(bounds, floor, desired, rule, recommended, observation)
    if desired == 0 and (idle or recommended is None) and not (rule and desired < current):
        rule = "Zero"
    deciding = recommendation.deciding
    if rule == "Zero" and desired > 0:
        until = zero.idle_at(bounds, observation)
    elif rule not in ("StabilizationWindow", "Rate", "Panic"):
        until = None
    decision = Decision(
        desired=desired,
        current=current,
        recommended=recommended,
        metric=deciding.name if deciding else "",
        value=deciding.value if deciding else None,
        target=deciding.target if deciding else None,
        rule=rule,
        is_panic=history.panic_until is not None,
        panic_until=history.panic_until,
        metrics=recommendation.metrics,
        message=sentence(current, desired, recommended, rule, deciding, outlook),
        outlook=outlook,
        held_until=until,
    )
    return decision, history


def _ahead(history: History, now: float, recommendation: Recommendation) -> tuple[Outlook | None, History]:
    start_s = history.expected_start_s
    if start_s is None or recommendation.needed is None:
        return None, history
    forecast = history.forecast.after(now, recommendation.needed, start_s)
    return forecast.outlook(start_s), msgspec.structs.replace(history, forecast=forecast)


def _with_forecast(
    policy: Policy, current: int, recommended: int, rule: str, outlook: Outlook
) -> tuple[int, str]:
    """The larger of what is needed now and what will be."""
    if not outlook.method:
        return recommended, rule
    later = rounded(policy, outlook.needed, current)
    return (later, "Forecast") if later > recommended else (recommended, rule)


def _within(
    bounds: Bounds, floor: int, desired: int, rule: str, recommended: int | None, observation: Observation
) -> tuple[int, str]:
    if observation.is_wanted and observation.current == 0:
        least = "Waking"
    else:
        least = "Minimum" if bounds.minimum > 0 else "Zero"
    if desired < floor:
        return floor, least
    if desired > bounds.maximum:
        return bounds.maximum, "Maximum"
    if least == "Waking" and desired == floor:
        return desired, least
    if recommended is not None and rule in ("", "Forecast"):
        if desired == bounds.maximum < recommended:
            return desired, "Maximum"
        if desired == floor > recommended:
            return desired, least
    return desired, rule
