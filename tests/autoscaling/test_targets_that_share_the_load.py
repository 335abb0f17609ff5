"""The split among targets of different cost and capacity, by the cases of the specification (A31 to A33)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.autoscaling import (
    Bounds,
    History,
    MetricTarget,
    Observation,
    Param,
    PodSample,
    Policy,
    Rate,
    Split,
    Total,
    split,
)
from headgate.autoscaling.optimizer import allocate, blocks, fewest_with, units

FREE = Rate(period_s=0.0)
POLICY = Policy((MetricTarget("load", 1.0),), tolerance_percent=0, up=FREE, down=FREE)


def param(name: str, cost: float, least: int, most: int, current: int = 0, **more: float) -> Param:
    ready = int(more.pop("ready", current))
    return Param(name, Bounds(least, most), cost, current, ready, **more)  # type: ignore[arg-type]


def passed(
    params: list[Param], load: float | None, history: History | None = None, now: float = 1_000.0
) -> tuple[Split, History]:
    totals = {} if load is None else {"load": Total(load)}
    return split(POLICY, params, history or History.empty(), Observation(now, 0, 0, totals=totals), 100)


def test_the_cheap_target_fills_first() -> None:
    """A31"""
    params = [param("h100", 10, 1, 4), param("a100", 5, 1, 3)]
    assert allocate(params, blocks(params, (1.0, 1.0), 100), 5) == (2, 3)


def test_load_beyond_all_maxima_fills_every_target() -> None:
    """A32"""
    params = [param("a", 10, 1, 5, 1), param("b", 20, 2, 4, 2)]
    found, _ = passed(params, 200.0)
    assert found.desired == (5, 4)
    assert (found.decision.rule, found.decision.recommended) == ("Maximum", 200)


@pytest.mark.parametrize(("total", "expected"), [(0, (1, 2)), (999, (5, 4))])
def test_the_bounds_of_each_target_hold(total: int, expected: tuple[int, int]) -> None:
    """A33"""
    params = [param("a", 10, 1, 5), param("b", 20, 2, 4)]
    assert allocate(params, blocks(params, (1.0, 1.0), 200), total) == expected


def test_a_dear_target_enters_when_the_next_doubling_of_the_cheap_one_costs_more() -> None:
    params = [param("cheap", 1, 0, 100), param("dear", 3, 0, 100)]
    order = blocks(params, (1.0, 1.0), 200)
    assert [allocate(params, order, total) for total in (1, 3, 4, 8)] == [(1, 0), (3, 0), (3, 1), (7, 1)]


def test_a_million_replicas_take_few_blocks() -> None:
    params = [param("a", 1, 0, 1_000_000), param("b", 1, 0, 1_000_000)]
    assert len(blocks(params, (1.0, 1.0), 200)) < 50
    assert len(blocks(params, (1.0, 1.0), 50)) == 2


def test_a_replica_that_serves_twice_counts_as_two() -> None:
    """A dear one that serves three times as much is the cheaper one."""
    params = [param("a100", 5, 0, 10, 6, capacity=1.0), param("h100", 10, 0, 10, 0, capacity=3.0)]
    order = blocks(params, (1.0, 3.0), 100)
    assert fewest_with(params, order, (1.0, 3.0), 8.5) == 3
    assert allocate(params, order, 3) == (0, 3)


def test_replicas_go_only_when_their_replacement_is_ready() -> None:
    cheap = param("cheap", 1, 0, 10, 0)
    dear = param("dear", 9, 0, 10, 4)
    grown, history = passed([cheap, dear], 6.0)
    assert grown.desired == (2, 4)
    coming = [cheap._replace(current=2, ready=0), dear]
    waiting, history = passed(coming, 4.0, history, 1_015.0)
    assert (waiting.desired, waiting.decision.rule) == ((2, 4), "NotReady")
    come = [cheap._replace(current=2, ready=2), dear]
    replaced, _ = passed(come, 4.0, history, 1_030.0)
    assert replaced.desired == (4, 2)


def test_dear_replicas_are_replaced_one_by_one_under_constant_load() -> None:
    counts, ready, history = (0, 4), (0, 4), History.empty()
    for step in range(12):
        params = [
            param("cheap", 1, 0, 10, counts[0], ready=ready[0]),
            param("dear", 9, 0, 10, counts[1], ready=ready[1]),
        ]
        ready = counts  # a replica takes one pass to start
        assert min(params[0].ready, counts[0]) + counts[1] >= 4, "what is ready serves the load"
        found, history = passed(params, 4.0, history, 1_000.0 + 15 * step)
        assert sum(found.desired) <= 5
        counts = (found.desired[0], found.desired[1])
    assert counts == (4, 0)


def test_without_a_metric_every_target_stays() -> None:
    params = [param("a", 1, 0, 10, 3), param("b", 9, 0, 10, 4)]
    found, _ = passed(params, None)
    assert found.desired == (3, 4)
    assert found.decision.rule == "MetricMissing"
    above = [param("a", 1, 0, 2, 3), param("b", 9, 5, 10, 4)]
    assert passed(above, None)[0].desired == (2, 5), "but within its bounds"


def test_the_pods_of_all_targets_are_added_up() -> None:
    params = [
        param("a", 1, 0, 10, 2)._replace(pods=[PodSample(f"a-{i}", True, {"load": 2.0}) for i in range(2)]),
        param("b", 9, 0, 10, 1)._replace(pods=[PodSample("b-0", True, {"load": 1.0})]),
    ]
    assert passed(params, None)[0].desired == (4, 1)


def test_the_capacity_of_hardware_is_learned_from_what_it_serves() -> None:
    params = [
        param("a100", 5, 1, 10, 2, served=200.0),
        param("h100", 10, 1, 10, 2, served=600.0),
    ]
    history = History.empty()
    for step in range(60):
        found, history = passed(params, 4.0, history, 1_000.0 + 15 * step)
        if step == 1:
            assert found.capacities == (1.0, 1.0), "equal until enough was seen"
    assert found.capacities == (1.0, 3.0)
    unchanged = history.capacities
    idle = [entry._replace(served=20.0) for entry in params]
    for step in range(60, 120):
        found, history = passed(idle, 1.0, history, 1_000.0 + 15 * step)
    assert history.capacities == unchanged, "targets that are not busy show nothing"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20), st.integers(0, 8), st.integers(0, 30), st.sampled_from([0.5, 1.0, 3.0])
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 300),
    st.integers(0, 300),
)
def test_a_split_depends_on_the_total_alone(
    targets: list[tuple[int, int, int, float]], total: int, percent: int
) -> None:
    """Each further replica is added to one target, so that scaling down takes back what scaling up added."""
    params = [
        param(f"target-{i}", cost, least, least + more) for i, (cost, least, more, _) in enumerate(targets)
    ]
    capacities = [capacity for *_, capacity in targets]
    order = blocks(params, capacities, percent)
    least, most = sum(p.bounds.minimum for p in params), sum(p.bounds.maximum for p in params)
    found, more = allocate(params, order, total), allocate(params, order, total + 1)
    assert sum(found) == min(max(total, least), most)
    assert all(p.bounds.minimum <= n <= p.bounds.maximum for p, n in zip(params, found, strict=True))
    assert all(0 <= after - before <= 1 for before, after in zip(found, more, strict=True))
    needed = units(found, capacities)
    smallest = fewest_with(params, order, capacities, needed)
    assert smallest <= sum(found)
    assert units(allocate(params, order, smallest), capacities) >= needed - 1e-6
