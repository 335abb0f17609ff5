"""A whole pass over one target: from what was observed to the number of replicas to write."""

from __future__ import annotations

from headgate.autoscaling import correction, zero
from headgate.autoscaling.decision import Decision, sentence
from headgate.autoscaling.history import History
from headgate.autoscaling.policy import Bounds, Policy
from headgate.autoscaling.recommendation import Recommendation, recommend
from headgate.autoscaling.samples import Observation

__all__ = ["decide"]


def decide(
    policy: Policy, bounds: Bounds, history: History, observation: Observation
) -> tuple[Decision, History]:
    """The decision, and the history for the next pass. `observation.now` should not go back between passes;
    if it does, windows are at most a little longer."""
    history = history.with_replicas(observation.now, observation.current)
    return _bounded(policy, bounds, history, observation, recommend(policy, observation))


def _bounded(
    policy: Policy, bounds: Bounds, history: History, observation: Observation, recommendation: Recommendation
) -> tuple[Decision, History]:
    now, current = observation.now, observation.current
    floor = zero.fewest(bounds, observation)
    idle = zero.is_idle(bounds, observation)
    recommended = 0 if idle else recommendation.desired
    desired, rule = current, "" if idle else recommendation.rule
    if recommended is not None:
        wanted = min(max(recommended, floor), bounds.maximum)
        history = history.settled(now, current)
        history = correction.with_panic(policy, history, now, current, wanted)
        corrected = correction.correct(policy, history, now, current, wanted, is_idle=idle)
        history = history.with_recommendation(now, wanted)
        desired, rule = corrected.desired, corrected.rule or rule
    else:
        history = correction.with_panic(policy, history, now, current, current)
    desired, rule = _within(bounds, floor, desired, rule, recommended, observation)
    if desired == 0 and (idle or recommended is None):
        rule = rule if desired < current and rule else "Zero"
    return _decision(observation, history, recommendation, recommended, desired, rule), history


def _within(
    bounds: Bounds, floor: int, desired: int, rule: str, recommended: int | None, observation: Observation
) -> tuple[int, str]:
    if desired < floor:
        return floor, "Waking" if observation.is_wanted and observation.current == 0 else "Minimum"
    if desired > bounds.maximum:
        return bounds.maximum, "Maximum"
    if recommended is not None and not rule:
        if desired == bounds.maximum < recommended:
            return desired, "Maximum"
        if desired == floor > recommended:
            return desired, "Waking" if observation.is_wanted and observation.current == 0 else "Minimum"
    return desired, rule


def _decision(
    observation: Observation,
    history: History,
    recommendation: Recommendation,
    recommended: int | None,
    desired: int,
    rule: str,
) -> Decision:
    deciding = recommendation.deciding
    return Decision(
        desired=desired,
        current=observation.current,
        recommended=recommended,
        metric=deciding.name if deciding else "",
        value=deciding.value if deciding else None,
        target=deciding.target if deciding else None,
        rule=rule,
        is_panic=history.panic_until is not None,
        panic_until=history.panic_until,
        metrics=recommendation.metrics,
        message=sentence(observation.current, desired, recommended, rule, deciding),
    )
