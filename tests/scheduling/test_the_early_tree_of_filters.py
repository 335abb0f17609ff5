"""The early endpoint picker's decision tree picks and refuses as its vectors say (A2, A4, A5)."""

import random
from collections import Counter

import pytest
from some_endpoints import cycle, endpoints, request

from headgate.scheduling.plugins import decision_tree
from headgate.scheduling.plugins.decision_tree import DecisionTree, DecisionTreeParameters
from headgate.scheduling.plugins.pickers import RandomPicker
from headgate.scheduling.profiles import Composed, Profile

BUSY = ({"waiting": 10, "kv": 0.9}, {"waiting": 3, "kv": 0.85}, {"waiting": 10, "kv": 0.85})


def pods(*given: tuple[int, float, str, int]):
    return endpoints(
        *({"waiting": q, "kv": kv, "active": active, "max_adapters": most} for q, kv, active, most in given)
    )


def tree(version="v0.3", **said) -> DecisionTree:
    return DecisionTree(DecisionTreeParameters(version=version, **said))


def kept(made: DecisionTree, pool, asked) -> list[int]:
    return [pool.index(load) for load in made.keep(cycle(asked), pool)]


THREE = ((0, 0.2, "foo bar", 2), (3, 0.1, "foo critical", 2), (10, 0.2, "foo", 2))


@pytest.mark.parametrize("version", ["v0.1", "v0.3"])
def test_critical_requests_go_where_their_adapter_is(version):
    """The one that has it is asked, though another's queue is shorter."""
    pool = pods(*THREE)
    assert kept(tree(version), pool, request(adapter="critical", priority=1)) == [1]


@pytest.mark.parametrize("version", ["v0.1", "v0.3"])
def test_sheddable_requests_are_served_where_there_is_room(version):
    """Queue at most 5 and cache at most .8, then the shortest queue."""
    assert kept(tree(version), pods(*THREE), request(adapter="sheddable")) == [0]


@pytest.mark.parametrize("priority", [0, -1])
def test_sheddable_requests_are_refused_where_there_is_none(priority):
    """A4: nobody has room: refused, and the reason says that it passes; a critical request is served."""
    pool = endpoints(*BUSY)
    policy = Composed(Profile(filters=[tree()], picker=RandomPicker()))
    asked = request(priority=priority)
    assert policy.pick(asked, pool, 0.0, random.Random(1)) is None
    refused = policy.refusal(asked, pool, 0.0)
    assert (refused.why, refused.is_busy) == ("decision-tree leaves none of its endpoints", True)
    assert policy.pick(request(priority=1), pool, 0.0, random.Random(1)) is not None


def test_picks_of_the_hermetic_cases():
    """A2: the adapter's holder with the empty queue; A5: the only one with room."""
    critical = pods((0, 0.2, "foo bar", 4), (0, 0.1, "foo sql-lora-1fdg2", 4), (10, 0.2, "foo bar", 4))
    assert kept(tree(), critical, request(adapter="sql-lora-1fdg2", priority=1)) == [1]
    name = "sql-lora-1fdg3"
    sheddable = pods((4, 0.2, f"foo {name}", 4), (0, 0.85, f"foo {name}", 4), (10, 0.9, f"foo {name}", 4))
    assert kept(tree(), sheddable, request(adapter=name)) == [0]
    full = pods((6, 0.2, f"foo {name}", 4), (0, 0.85, f"foo {name}", 4), (10, 0.9, f"foo {name}", 4))
    assert kept(tree(), full, request(adapter=name)) == []


def test_no_queue_and_little_cache():
    """With thresholds 0 and .8 only the first of (0, 0), (1, .3), (0, 1.0) has room."""
    pool = endpoints({"waiting": 0, "kv": 0.0}, {"waiting": 1, "kv": 0.3}, {"waiting": 0, "kv": 1.0})
    assert kept(tree(queue_threshold_critical=0), pool, request()) == [0]


def test_critical_requests_with_long_queues_everywhere_take_the_shortest():
    """Past 50 waiting in v0.1 the queue comes before the adapter; v0.3 thinks of 128."""
    pool = pods((60, 0.1, "a", 1), (51, 0.1, "b", 1), (200, 0.1, "a", 1))
    assert kept(tree("v0.1"), pool, request(adapter="a", priority=1)) == [0]
    assert kept(tree("v0.3"), pool, request(adapter="a", priority=1)) == [0]
    far = pods((600, 0.1, "a", 1), (130, 0.1, "b", 1), (700, 0.1, "b", 1))
    assert kept(tree("v0.3"), far, request(adapter="a", priority=1)) == [1]


def test_steps_of_the_tree():
    """Least queue of 0, 3, 10 keeps 0 and 3; least cache of 0, .3, 1 keeps 0 and .3; of nobody, nobody."""
    queues = endpoints({"waiting": 0}, {"waiting": 3}, {"waiting": 10})
    assert decision_tree.least_queue(queues) == queues[:2]
    usages = endpoints({"kv": 0.0}, {"kv": 0.3}, {"kv": 1.0})
    assert decision_tree.least_kv(usages) == usages[:2]
    assert decision_tree.least_queue([]) == decision_tree.least_kv([]) == []
    costs = pods((0, 0.0, "a", 1), (0, 0.0, "b", 2), (0, 0.0, "b c", 2))
    assert decision_tree.low_adapter_cost("a", costs) == costs[:2]


def test_affinity_is_soft():
    """Of those with and those without the adapter, .999 of the requests go to the first."""
    pool = pods((0, 0.1, "a", 2), (0, 0.1, "b", 2))
    made = tree(lora_affinity_threshold=0.9)
    asked = cycle(request(adapter="a", priority=1))
    counts = Counter(made.keep(asked, pool)[0].endpoint.name for _ in range(2000))
    assert counts["default/pod-0"] / 2000 == pytest.approx(0.9, abs=0.03)
    assert DecisionTreeParameters().lora_affinity_threshold == 0.999
