"""From an observation to replicas of each target, by the rules of the room `autoscaling`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate import api
from headgate.api import marks
from headgate.api.kthena_registry import OptimizerParam
from headgate.autoscaling import Bounds, Decision, History, Observation, Param, Policy, decide, split
from headgate.controllers.autoscaling.observing import Found, served
from headgate.kubeschema import duration


class Outcome(NamedTuple):
    decision: Decision
    replicas: Sequence[int]
    """Of each target."""
    history: History


def decide_all(
    binding: api.AutoscalingPolicyBinding,
    policy: Policy,
    found: Sequence[Found],
    history: History,
    observed: Observation,
    values: Mapping[str, Mapping[str, float]],
) -> Outcome:
    """One pass over the targets of a binding; `values` are those of the Pods, by UID."""
    zero_after_s = grace_s(binding)
    optimizer = binding.spec.optimizer_configuration
    if optimizer is None:
        [one] = found
        decision, history = decide(policy, _bounds(one, zero_after_s), history, observed)
        return Outcome(decision, [decision.desired], history)
    params = [_param(each, zero_after_s, values) for each in found]
    rate = optimizer.cost_expansion_rate_percent
    both, history = split(policy, params, history, observed, rate)
    return Outcome(both.decision, both.desired, history)


def grace_s(binding: api.AutoscalingPolicyBinding) -> float | None:
    """How long there must be no requests before the last replica goes; None if it stays, also because of an
    annotation that is no duration, of which admission warns."""
    text = binding.metadata.annotations.get(marks.ZERO_GRACE_PERIOD)
    try:
        return None if text is None else max(duration.parse(text), 0.0)
    except duration.DurationError:
        return None


def may_be_zero(binding: api.AutoscalingPolicyBinding, found: Sequence[Found]) -> bool:
    """Whether all targets may go to zero, so that the next request has to wait for a start."""
    return grace_s(binding) is not None and not any(each.target.configuration.min_replicas for each in found)


def is_settled(binding: api.AutoscalingPolicyBinding, found: Sequence[Found]) -> bool:
    """Whether there are as few replicas of all targets as there may ever be."""
    least = 0 if may_be_zero(binding, found) else 1
    return all(each.current <= max(each.target.configuration.min_replicas, least) for each in found)


def _bounds(found: Found, zero_after_s: float | None) -> Bounds:
    configuration = found.target.configuration
    least = configuration.min_replicas
    return Bounds(least, max(least, configuration.max_replicas), zero_after_s)


def _param(found: Found, zero_after_s: float | None, values: Mapping[str, Mapping[str, float]]) -> Param:
    configuration = found.target.configuration
    samples = found.samples(values)
    return Param(
        name=str(found.target.workload),
        bounds=_bounds(found, zero_after_s),
        cost=configuration.cost if isinstance(configuration, OptimizerParam) else 0,
        current=found.current,
        ready=found.ready,
        pods=samples,
        served=served(samples),
    )
