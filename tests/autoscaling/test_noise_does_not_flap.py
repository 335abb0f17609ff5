"""Constant load with Poisson noise: reversals of direction an hour, against the reference's algorithm.

`Reference` is the autoscaler of the specification (sections 7.3 and 7.4, with the windows of its newest
version): one summed entry for a target, and a tolerance around one replica's worth of load.
"""

import math
import random
from typing import NamedTuple

import pytest

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


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("mean", [45.0, 120.0, 250.0])
def test_a_fleet_turns_less_often_than_the_reference(policy: Policy, mean: float) -> None:
    ours, reference = hourly(Ours(policy), 10.0, mean, seed=1), hourly(Reference(policy), 10.0, mean, seed=1)
    assert ours.reversals < reference.reversals
    assert ours.short < 0.02, "and has the replicas that it needs"


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_over_all_sizes_it_turns_less_often(policy: Policy) -> None:
    """With one or two replicas, the reference may turn less often: load for one replica never makes it
    leave the second."""
    ours, reference = 0, 0
    for mean in (8.0, 15.0, 45.0, 120.0, 250.0):
        ours += hourly(Ours(policy), 10.0, mean, seed=2).reversals
        reference += hourly(Reference(policy), 10.0, mean, seed=2).reversals
    assert ours < reference


def test_a_small_fleet_turns_a_few_times_an_hour_at_most() -> None:
    assert hourly(Ours(POLICIES["defaults"]), 10.0, 8.0, seed=3).reversals <= 2 * HOURS
