"""From an observation to replicas of each target, by the rules of the room `autoscaling`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.autoscaling import Bounds, Decision, History, Observation, Policy, decide
from headgate.controllers.autoscaling.targets import Target


class Outcome(NamedTuple):
    decision: Decision
    replicas: Sequence[int]
    """Of each target."""
    history: History


def decide_all(
    policy: Policy, targets: Sequence[Target], history: History, observation: Observation
) -> Outcome:
    [target] = targets
    decision, history = decide(policy, bounds_of(target), history, observation)
    return Outcome(decision, [decision.desired], history)


def bounds_of(target: Target) -> Bounds:
    configuration = target.configuration
    return Bounds(configuration.min_replicas, max(configuration.min_replicas, configuration.max_replicas))
