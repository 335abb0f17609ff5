"""A whole pass over several targets that share the load: how many replicas together, and which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headgate.autoscaling import capacity, correction, optimizer
from headgate.autoscaling.decision import Decision, sentence
from headgate.autoscaling.history import History
from headgate.autoscaling.optimizer import Param
from headgate.autoscaling.policy import Bounds, MetricTarget, Policy
from headgate.autoscaling.recommendation import Recommendation, recommend
from headgate.autoscaling.samples import Observation
from headgate.autoscaling.scaler import settle

__all__ = ["Split", "split"]

_HOLDING = ("Tolerance", "NotReady", "MetricMissing")


class Split(NamedTuple):
    decision: Decision
    """About all targets together."""
    desired: tuple[int, ...]
    """Replicas of each target, in the order of the params; their sum is that of the decision."""
    capacities: tuple[float, ...]
    """Of one replica of each target, compared with the first target's."""


def split(
    policy: Policy,
    params: Sequence[Param],
    history: History,
    observation: Observation,
    expansion_percent: int = 200,
) -> tuple[Split, History]:
    """Like `decide`. The observation has what concerns the targets together: the time, totals, idleness;
    its replicas and Pods are ignored for those of the params.

    A target's value of a metric is for one replica of capacity 1, which the first target has.
    """
    observation = _together(params, observation)
    bounds = _bounds(params)
    passed_at = history.passed_at
    history = history.observed(observation)
    capacities = capacity.capacities(history.capacities, params)
    order = optimizer.blocks(params, capacities, expansion_percent)
    current = observation.current
    mean = optimizer.units([param.current for param in params], capacities) / current if current else 1.0
    recommendation = recommend(_for_mean(policy, mean), observation)
    needed = None if recommendation.needed is None else recommendation.needed * mean
    if needed is not None and recommendation.desired is not None and recommendation.rule not in _HOLDING:
        fewest = optimizer.fewest_with(params, order, capacities, needed)
        if bounds.minimum < fewest < bounds.maximum:  # at a bound, the explanation tells the whole need
            recommendation = recommendation._replace(desired=fewest)
    decision, history = settle(policy, bounds, history, observation, recommendation)
    may_grow = correction.correct(policy, history, observation.now, current, current + 1).desired > current
    desired = _split(params, order, capacities, decision, recommendation, needed, int(may_grow))
    if passed_at is not None and recommendation.needed is not None and current:
        history = msgspec.structs.replace(
            history,
            capacities=capacity.learned(
                history.capacities, params, observation.now - passed_at, recommendation.needed / current
            ),
        )
    return Split(_as_split(decision, sum(desired), recommendation), desired, capacities), history


def _as_split(decision: Decision, desired: int, recommendation: Recommendation) -> Decision:
    if desired == decision.desired:
        return decision
    text = sentence(decision.current, desired, decision.recommended, "NotReady", recommendation.deciding)
    return decision._replace(desired=desired, rule="NotReady", message=text)


def _together(params: Sequence[Param], observation: Observation) -> Observation:
    return observation._replace(
        current=sum(param.current for param in params),
        ready=sum(param.ready for param in params),
        pods=[
            pod._replace(name=f"{param.name}/{pod.name}") if pod.created_at is not None else pod
            for param in params
            for pod in param.pods
        ],
    )


def _bounds(params: Sequence[Param]) -> Bounds:
    """To zero, all targets go together, after the longest of their times."""
    times = [param.bounds.zero_after_s for param in params]
    known = [time for time in times if time is not None]
    return Bounds(
        sum(param.bounds.minimum for param in params),
        sum(param.bounds.maximum for param in params),
        max(known) if known and len(known) == len(times) else None,
    )


def _for_mean(policy: Policy, capacity: float) -> Policy:
    """The policy for a replica of the average capacity of those that there are."""
    if capacity == 1.0:
        return policy
    metrics = tuple(MetricTarget(name, value * capacity) for name, value in policy.metrics)
    return policy._replace(metrics=metrics)


def _split(
    params: Sequence[Param],
    order: Sequence[optimizer.Block],
    capacities: Sequence[float],
    decision: Decision,
    recommendation: Recommendation,
    needed: float | None,
    surge: int,
) -> tuple[int, ...]:
    now = tuple(_clamped(param.current, param.bounds) for param in params)
    is_held = recommendation.desired is None or recommendation.rule in _HOLDING
    if is_held and decision.desired == sum(now):
        return now
    ideal = optimizer.allocate(params, order, decision.desired)
    if decision.desired == 0 or needed is None:
        return ideal
    return _without_gap(params, capacities, now, ideal, needed, surge)


def _without_gap(
    params: Sequence[Param],
    capacities: Sequence[float],
    now: tuple[int, ...],
    ideal: tuple[int, ...],
    needed: float,
    surge: int,
) -> tuple[int, ...]:
    """Towards the ideal split, but so that the ready replicas that stay serve what is needed: replicas of one
    target go only when those of another that replace them are ready. Meanwhile fewer come, so that the rates
    hold for all targets together. If none can go before another comes, `surge` more may come first."""
    ready = [min(param.ready, number) for param, number in zip(params, now, strict=True)]
    spare = optimizer.units(ready, capacities) - needed
    desired = list(now)
    for index in range(len(params)):
        surplus = now[index] - ideal[index]
        if surplus <= 0:
            continue
        free = min(surplus, now[index] - ready[index])
        serving = min(surplus - free, max(int(spare / capacities[index] + 1e-9), 0))
        spare -= serving * capacities[index]
        desired[index] -= free + serving
    left = max(sum(ideal), sum(now)) - sum(desired)
    if left == 0 and ready == list(now):
        left = surge
    for index in range(len(params)):
        added = min(max(ideal[index] - now[index], 0), left)
        desired[index] += added
        left -= added
    return tuple(desired)


def _clamped(number: int, bounds: Bounds) -> int:
    return min(max(number, bounds.minimum), bounds.maximum)
