"""Constant load with Poisson noise: reversals of direction an hour, against the reference's algorithm.

`Reference` is the autoscaler of the specification (sections 7.3 and 7.4, with the windows of its newest
version): one summed entry for a target, and a tolerance around one replica's worth of load.
"""

import math
import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.autoscaling import Bounds, History, MetricTarget, Observation, Policy, Rate, Total, decide

PASS_S = 15.0
HOURS = 6


class Reference:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.recommended: list[tuple[float, int]] = []
        self.corrected: list[tuple[float, int]] = []

    def __call__(self, now: float, current: int, load: float) -> int:
        needed = load / self.policy.metrics[0].value
        if abs(needed - 1) <= self.policy.tolerance_percent / 100:
            wanted = current
        else:
            wanted = math.ceil(needed)
        wanted = min(max(wanted, 1), 100)
        found = self._bounded(now, current, wanted)
        self.recommended.append((now, wanted))
        self.corrected.append((now, found))
        return found

    def _bounded(self, now: float, current: int, wanted: int) -> int:
        rate = self.policy.up if wanted > current else self.policy.down
        window = [value for at, value in self.recommended if at >= now - rate.window_s]
        held = [current, *(value for at, value in self.corrected if at >= now - rate.period_s)]
        if wanted < current:
            kept = max([wanted, *window]) if rate.window_s else wanted
            most = max(held)
            bound = min(most - rate.instances, most - most * rate.percent // 100)
            return min(max(kept, bound), current)
        if wanted > current:
            kept = min([wanted, *window]) if rate.window_s else wanted
            fewest = min(held)
            bound = max(fewest + rate.instances, fewest + fewest * rate.percent // 100)
            return max(min(kept, bound), current)
        return current


class Ours:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.history = History.empty()

    def __call__(self, now: float, current: int, load: float) -> int:
        observation = Observation(now, current, current, totals={"load": Total(load)})
        decision, self.history = decide(self.policy, Bounds(1, 100), self.history, observation)
        return decision.desired


class Outcome(NamedTuple):
    reversals: int
    mean: float
    short: float
    """The mean share of the load that there were no replicas for."""


def poisson(rng: random.Random, mean: float) -> int:
    if mean > 300:  # nearly normal, and the other way would take long
        return max(round(rng.gauss(mean, math.sqrt(mean))), 0)
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        product *= rng.random()
        count += 1
    return count


def hourly(scaler: Reference | Ours, target: float, mean: float, seed: int) -> Outcome:
    rng, current, direction, reversals = random.Random(seed), math.ceil(mean / target), 0, 0
    total, short, steps = 0, 0.0, int(HOURS * 3600 / PASS_S)
    for step in range(steps):
        load = poisson(rng, mean)
        desired = scaler(step * PASS_S, current, load)
        if desired != current:
            now = 1 if desired > current else -1
            reversals += now == -direction
            direction = now
        current = desired
        total += current
        short += max(load / target - current, 0) / max(load / target, 1)
    return Outcome(reversals, total / steps, short / steps)


POLICIES = {
    "defaults": Policy((MetricTarget("load", 10.0),)),
    "short window": Policy((MetricTarget("load", 10.0),), down=Rate(window_s=60)),
    "no window": Policy((MetricTarget("load", 10.0),), down=Rate()),
    "rates of a minute": Policy(
        (MetricTarget("load", 10.0),), up=Rate(4, 100, 60.0), down=Rate(0, 100, 60.0, window_s=300)
    ),
    "both windows": Policy((MetricTarget("load", 10.0),), up=Rate(window_s=30), down=Rate(window_s=300)),
}


# Loads for about 1, 2, 5, 12, 25 and 50 replicas with a target of 10.
SIZES = (8.0, 15.0, 45.0, 120.0, 250.0, 495.0)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mean", [45.0, 120.0, 250.0, 495.0])
def test_a_fleet_turns_less_often_than_the_reference(policy: Policy, mean: float) -> None:
    ours, reference = hourly(Ours(policy), 10.0, mean, seed=1), hourly(Reference(policy), 10.0, mean, seed=1)
    assert ours.reversals < reference.reversals
    assert ours.short < 0.02, "and has the replicas that it needs"


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mean", [8.0, 15.0])
def test_one_or_two_replicas_turn_no_more_often(policy: Policy, mean: float) -> None:
    """The reference keeps one of them by chance: a load for about one replica never makes it leave more."""
    seeds = (1, 2)
    ours = [hourly(Ours(policy), 10.0, mean, seed) for seed in seeds]
    reference = [hourly(Reference(policy), 10.0, mean, seed) for seed in seeds]
    assert sum(each.reversals for each in ours) <= 1.1 * sum(each.reversals for each in reference)
    assert all(each.short < 0.01 for each in ours)
    kept = sum(each.mean for each in reference)
    assert sum(each.mean for each in ours) < 1.05 * kept, "for about as many replicas"


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(SIZES), st.floats(0.9, 1.1), st.integers(0, 2**32))
def test_any_size_turns_seldom(mean: float, factor: float, seed: int) -> None:
    """By the defaults, whatever the load is: hardly more often than the reference, which turns up to ten
    times an hour."""
    policy, load = POLICIES["defaults"], mean * factor
    reference = hourly(Reference(policy), 10.0, load, seed).reversals
    assert hourly(Ours(policy), 10.0, load, seed).reversals <= 1.5 * reference + HOURS / 2


def test_what_one_replica_needs_leaves_others_at_once() -> None:
    """The margin is for the last step only."""
    assert Ours(POLICIES["no window"])(0.0, 5, 10.0) == 1
    assert Ours(POLICIES["no window"])(0.0, 2, 10.0) == 2
    assert Ours(POLICIES["no window"])(0.0, 2, 8.0) == 1


def test_a_policy_without_tolerance_has_no_margin() -> None:
    exact = POLICIES["no window"]._replace(tolerance_percent=0.0)
    assert Ours(exact)(0.0, 2, 10.0) == 1
