"""Properties of every sequence of passes over targets that share the load."""

from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.autoscaling import (
    Bounds,
    History,
    MetricTarget,
    Observation,
    Param,
    Policy,
    Rate,
    Split,
    Total,
    split,
)

Target: TypeAlias = tuple[int, int, int, float | None]
"""Cost, minimum, how much larger the maximum is, and capacity."""
Step: TypeAlias = tuple[float, float | None, bool, bool]
"""Seconds passed, the load, whether it is idle, and whether replicas become ready."""

targets = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.integers(0, 3),
        st.integers(1, 12),
        st.none() | st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=4,
)
steps = st.lists(
    st.tuples(
        st.sampled_from([1.0, 15.0, 15.0, 90.0]), st.none() | st.floats(0, 60), st.booleans(), st.booleans()
    ),
    max_size=20,
)
policies = st.builds(
    Policy,
    metrics=st.just((MetricTarget("load", 2.0),)),
    tolerance_percent=st.sampled_from([0.0, 10.0]),
    panic=st.none(),
    up=st.builds(
        Rate,
        st.integers(1, 4),
        st.sampled_from([0, 50, 100]),
        st.sampled_from([0.0, 60.0]),
        st.just("Or"),
        st.just(0.0),
    ),
    down=st.builds(
        Rate,
        st.integers(0, 4),
        st.sampled_from([0, 50, 100]),
        st.sampled_from([0.0, 60.0]),
        st.just("Or"),
        st.sampled_from([0.0, 60.0]),
    ),
)


def played(
    policy: Policy, drawn: list[Target], sequence: list[Step], percent: int
) -> list[tuple[list[Param], Observation, Split]]:
    params = [
        Param(f"target-{i}", Bounds(least, least + more, 30.0), cost, least, least, capacity=capacity)
        for i, (cost, least, more, capacity) in enumerate(drawn)
    ]
    history, now, found = History.empty(), 10_000.0, []
    for passed_s, load, idle, come in sequence:
        now += passed_s
        if come:
            params = [param._replace(ready=param.current) for param in params]
        observation = Observation(
            now,
            0,
            0,
            totals={} if load is None else {"load": Total(load)},
            idle_since=now - 60 if idle and not load else None,
            is_wanted=bool(load) and not any(param.current for param in params),
        )
        result, history = split(policy, params, history, observation, percent)
        found.append((params, observation, result))
        params = [
            param._replace(current=number, ready=min(param.ready, number))
            for param, number in zip(params, result.desired, strict=True)
        ]
    return found


@settings(max_examples=100)
@given(policies, targets, steps, st.sampled_from([50, 100, 200]))
def test_the_bounds_of_every_target_hold(
    policy: Policy, drawn: list[Target], sequence: list[Step], percent: int
) -> None:
    for params, _, result in played(policy, drawn, sequence, percent):
        for param, desired in zip(params, result.desired, strict=True):
            assert param.bounds.minimum <= desired <= param.bounds.maximum
        assert sum(result.desired) == result.decision.desired
        assert result.decision.current == sum(param.current for param in params)


@settings(max_examples=100)
@given(policies, targets, steps, st.sampled_from([50, 100, 200]))
def test_the_rates_hold_for_all_targets_together(
    policy: Policy, drawn: list[Target], sequence: list[Step], percent: int
) -> None:
    held: list[tuple[float, int]] = []
    for params, observation, result in played(policy, drawn, sequence, percent):
        current, desired = sum(param.current for param in params), result.decision.desired
        held.append((observation.now, current))
        if current == 0:
            continue  # a waiting request wakes one replica at any rate
        rate = policy.up if desired > current else policy.down
        numbers = [number for at, number in held if at > observation.now - rate.period_s]
        if desired > current and rate.period_s:
            fewest = min(numbers)
            assert desired <= max(current, fewest + max(rate.instances, fewest * rate.percent // 100))
        if desired < current and rate.period_s:
            most = max(numbers)
            assert desired >= min(current, most - max(rate.instances, most * rate.percent // 100))


@settings(max_examples=100)
@given(policies, targets, steps, st.sampled_from([50, 100, 200]))
def test_what_is_ready_is_not_taken_from_what_is_needed(
    policy: Policy, drawn: list[Target], sequence: list[Step], percent: int
) -> None:
    for params, observation, result in played(policy, drawn, sequence, percent):
        if "load" not in observation.totals or observation.idle_since is not None:
            assert observation.idle_since is not None or result.decision.desired >= result.decision.current
            continue
        needed = observation.totals["load"].value / 2.0
        before = sum(
            param.ready * capacity for param, capacity in zip(params, result.capacities, strict=True)
        )
        after = sum(
            min(param.ready, desired) * capacity
            for param, desired, capacity in zip(params, result.desired, result.capacities, strict=True)
        )
        assert after >= min(before, needed) - 1e-6


def test_an_idle_group_goes_to_zero_and_wakes_at_its_cheapest() -> None:
    policy = Policy((MetricTarget("load", 1.0),))
    params = [
        Param("dear", Bounds(0, 4, 30.0), 9, 1, 1),
        Param("cheap", Bounds(0, 4, 60.0), 1, 2, 2),
    ]
    idle = Observation(1_000.0, 0, 0, idle_since=945.0)
    assert split(policy, params, History.empty(), idle)[0].decision.desired == 3, "not all periods are over"
    result, history = split(policy, params, History.empty(), idle._replace(idle_since=940.0))
    assert (result.desired, result.decision.rule) == ((0, 0), "Zero")
    stopped = [param._replace(current=0, ready=0) for param in params]
    wanted = Observation(1_100.0, 0, 0, is_wanted=True)
    result, _ = split(policy, stopped, history, wanted)
    assert (result.desired, result.decision.rule) == ((0, 1), "Waking")
