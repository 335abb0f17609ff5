"""Weighted targets get their share of every window of requests, not only in the long run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing


def targets(weights):
    return tuple(
        routing.Target(api.ObjectRef("ModelServer", "default", f"pool-{i}"), weight)
        for i, weight in enumerate(weights)
    )


PHASES = st.floats(0, 1, exclude_max=True)
WEIGHTS = st.lists(st.integers(0, 100), min_size=1, max_size=16).filter(any)


@given(WEIGHTS, PHASES, st.integers(1, 300))
def test_every_window_has_its_share(weights, phase, length):
    """From the start, each target is within one request of its share; from amid a round, within two."""
    made = targets(weights)
    for begun, bound in ((0, 1), (phase, 2)):
        split = routing.WeightedSplit(made, begun)
        counts = dict.fromkeys(made, 0)
        for turn in range(1, length + 1):
            counts[split.next()] += 1
            split.validate()
            for target in made:
                assert abs(counts[target] - turn * target.weight / sum(weights)) < bound
                assert target.weight or not counts[target]


@given(WEIGHTS, PHASES)
def test_one_round_is_exact(weights, phase):
    """As many requests as the weights add up to are split exactly, wherever the round begins."""
    made = targets(weights)
    split = routing.WeightedSplit(made, phase)
    turns = [split.next() for _ in range(sum(weights))]
    assert [turns.count(target) for target in made] == weights


def test_seventy_to_thirty():
    """R8: 1,000 requests over weights 70 and 30 are 700 and 300, spread out."""
    made = targets([70, 30, 0])
    split = routing.WeightedSplit(made)
    turns = [split.next() for _ in range(1000)]
    assert [turns.count(target) for target in made] == [700, 300, 0]
    assert all(made[1] in turns[at : at + 4] for at in range(997))


@pytest.mark.parametrize("weights", [[], [0], [0, 0]])
def test_no_weight_no_target(weights):
    """Targets of weight 0 are never chosen, not even when there are no others."""
    made = targets(weights)
    assert routing.WeightedSplit(made).next() is None
    rule = routing.Rule("r", None, made)
    assert routing.Splits().next(api.ObjectRef("ModelRoute", "default", "r"), rule) is None


@pytest.mark.parametrize("weights", [[1, 1, 1], [50, 50], [10, 20, 30]])
def test_workers_spread_over_the_round(weights):
    """Workers that begin at even parts of a round give each target its share of their first requests."""
    made = targets(weights)
    workers = sum(weights) // math.gcd(*weights)
    first = [routing.WeightedSplit(made, worker / workers).next() for worker in range(workers)]
    assert [first.count(target) * math.gcd(*weights) for target in made] == weights


def test_turns_are_kept_over_a_change_elsewhere():
    """A split goes on where it was while its own targets stay; forgotten rules start anew."""
    splits = routing.Splits()
    one, other = (
        api.ObjectRef("ModelServer", "default", "one"),
        api.ObjectRef("ModelServer", "default", "other"),
    )
    rule = routing.Rule("r", None, targets([3, 1]))
    first = [splits.next(one, rule) for _ in range(2)]
    splits.next(other, rule)
    routes = [routing.Route(key=key, name="", model="m", adapters=(), rules=(rule,)) for key in (one, other)]
    splits.change(left=routes, came=routes[:1])
    assert splits.statistics() == {"splits": 1}
    first += [splits.next(one, rule) for _ in range(2)]
    assert [first.count(target) for target in rule.targets] == [3, 1]
