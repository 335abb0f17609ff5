"""Properties of every sequence of passes, whatever the policy, even if it changes between them."""

import random
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.autoscaling import (
    Bounds,
    Decision,
    History,
    MetricTarget,
    Observation,
    Panic,
    PodSample,
    Policy,
    Rate,
    Total,
    decide,
)

seconds = st.sampled_from([0.0, 15.0, 60.0, 300.0, 1800.0])
rates = st.builds(
    Rate,
    instances=st.integers(0, 5),
    percent=st.sampled_from([0, 10, 50, 100, 400]),
    period_s=seconds,
    select=st.sampled_from(["Or", "And"]),
    window_s=seconds,
)
panics = st.builds(
    Panic,
    percent=st.sampled_from([0, 50, 100, 1000]),
    period_s=seconds,
    threshold_percent=st.sampled_from([110, 200, 1000]),
    hold_s=seconds,
)
policies = st.builds(
    Policy,
    metrics=st.sampled_from(
        [
            (MetricTarget("a", 1.0),),
            (MetricTarget("a", 2.0), MetricTarget("b", 0.5)),
            (MetricTarget("b", 3.0),),
        ]
    ),
    tolerance_percent=st.sampled_from([0.0, 10.0, 60.0]),
    up=rates,
    down=rates,
    panic=st.none() | panics,
)
bounds = st.tuples(st.integers(0, 5), st.integers(1, 40), st.none() | st.just(30.0)).map(
    lambda drawn: Bounds(drawn[0], drawn[0] + drawn[1], drawn[2])
)
values = st.dictionaries(st.sampled_from(["a", "b"]), st.floats(0, 10), max_size=2)
totals = st.dictionaries(
    st.sampled_from(["a", "b"]), st.builds(Total, st.floats(0, 100), st.booleans()), max_size=2
)
elapsed = st.sampled_from([0.0, 1.0, 15.0, 15.0, 15.0, 61.0, 400.0, 4000.0])


Step: TypeAlias = tuple[Policy, Bounds, float, list[PodSample], dict[str, Total], bool]
"""Policy, bounds, seconds since the last pass, Pods, totals, and whether it is idle or wanted."""


@st.composite
def sequences(draw: st.DrawFn) -> list[Step]:
    some = draw(st.lists(st.tuples(policies, bounds), min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(1, 25))):
        policy, limits = draw(st.sampled_from(some))
        pods = [
            PodSample(f"pod-{number}", draw(st.booleans()), draw(values), draw(st.none() | st.floats(0, 2e4)))
            for number in range(draw(st.integers(0, 6)))
        ]
        found.append((policy, limits, draw(elapsed), pods, draw(totals), draw(st.booleans())))
    return found


def played(
    sequence: Sequence[Step],
    *,
    through_json: bool = False,
    shuffled: random.Random | None = None,
) -> list[tuple[Policy, Bounds, Observation, Decision]]:
    """Every other write fails, so that the current number is not always the last decision."""
    history, now, current, found = History.empty(), 10_000.0, 3, []
    for number, (policy, limits, passed_s, pods, sums, flag) in enumerate(sequence):
        now += passed_s
        pods = list(pods)
        if shuffled:
            shuffled.shuffle(pods)
        ready = min(sum(pod.is_ready for pod in pods), current)
        idle_since = now - 60 if flag and not sums else None
        observation = Observation(now, current, ready, pods, sums, idle_since, flag and current == 0)
        if through_json:
            history = History.from_json(history.to_json())
        decision, history = decide(policy, limits, history, observation)
        assert len(history.to_json()) < 16_000
        found.append((policy, limits, observation, decision))
        if number % 2 == 0:
            current = decision.desired
    return found


@settings(max_examples=60)
@given(sequences())
def test_the_bounds_hold(sequence: list[Step]) -> None:
    for _, limits, observation, decision in played(sequence):
        assert limits.minimum <= decision.desired <= limits.maximum
        if decision.desired == 0 < observation.current:
            assert limits.zero_after_s is not None
            assert observation.idle_since is not None


@settings(max_examples=60)
@given(sequences())
def test_a_metric_that_is_lost_removes_no_replica(sequence: list[Step]) -> None:
    for policy, limits, observation, decision in played(sequence):
        lost = [view for view in decision.metrics if view.value is None]
        assert {view.name for view in decision.metrics} == {metric.name for metric in policy.metrics}
        if lost and observation.idle_since is None:
            assert decision.desired >= min(observation.current, limits.maximum)


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=8),
    st.lists(st.floats(0, 1), min_size=1, max_size=8),
    st.integers(0, 4),
)
def test_pods_below_their_target_that_cannot_be_measured_remove_no_replica(
    seen: list[float], lost: list[float], more: int
) -> None:
    policy = Policy((MetricTarget("a", 1.0),), up=Rate(period_s=0), down=Rate(period_s=0))
    current = len(seen) + len(lost) + more

    def desired(samples: list[PodSample]) -> int:
        observation = Observation(1_000.0, current, len(samples), samples)
        return decide(policy, Bounds(1, 1_000), History.empty(), observation)[0].desired

    measured = [PodSample(f"seen-{i}", True, {"a": value}) for i, value in enumerate(seen)]
    known = [PodSample(f"lost-{i}", True, {"a": value}) for i, value in enumerate(lost)]
    mute = [pod._replace(values={}) for pod in known]
    assert desired(measured + mute) >= min(desired(measured + known), current)


@settings(max_examples=60)
@given(sequences())
def test_no_step_is_larger_than_its_rate(sequence: list[Step]) -> None:
    """Recomputed from all replica numbers there were, by the formulas of the specification."""
    held: list[tuple[float, int]] = []
    for policy, limits, observation, decision in played(sequence):
        now, current = observation.now, observation.current
        held.append((now, current))
        if not limits.minimum <= current <= limits.maximum or observation.is_wanted:
            continue
        if decision.is_panic:
            assert policy.panic is not None
            numbers = [number for at, number in held if at > now - policy.panic.period_s]
            fewest = min(numbers, default=0)
            if fewest > 0 and policy.panic.period_s > 0:
                assert decision.desired <= max(current, fewest + fewest * policy.panic.percent // 100)
            assert decision.desired >= current
            continue
        rate = policy.up if decision.desired > current else policy.down
        if decision.desired == current or rate.period_s == 0:
            continue
        numbers = [number for at, number in held if at > now - rate.period_s]
        pick = max if rate.select == "Or" else min
        if decision.desired > current:
            fewest = min(numbers)
            allowed = pick(rate.instances, fewest * rate.percent // 100)
            assert decision.desired <= max(current, fewest + allowed)
        else:
            most = max(numbers)
            allowed = pick(rate.instances, most * rate.percent // 100)
            assert decision.desired >= min(current, most - allowed)


@settings(max_examples=60)
@given(sequences())
def test_a_change_was_recommended_for_its_whole_window(sequence: list[Step]) -> None:
    recommended: list[tuple[float, int]] = []
    for policy, limits, observation, decision in played(sequence):
        now, current = observation.now, observation.current
        if decision.recommended is not None:
            recommended.append((now, min(max(decision.recommended, limits.minimum), limits.maximum)))
        if decision.is_panic or not limits.minimum <= current <= limits.maximum:
            continue
        if observation.idle_since is not None or observation.is_wanted:
            continue
        if decision.desired < current and policy.down.window_s > 0:
            window = [number for at, number in recommended if at >= now - policy.down.window_s]
            assert decision.desired >= min(current, max(window))
        if decision.desired > current and policy.up.window_s > 0:
            window = [number for at, number in recommended if at >= now - policy.up.window_s]
            assert decision.desired <= max(current, 1, min(window))


@settings(max_examples=60)
@given(sequences())
def test_a_restart_of_the_controller_changes_nothing(sequence: list[Step]) -> None:
    assert played(sequence, through_json=True) == played(sequence)


@settings(max_examples=60)
@given(sequences(), st.integers())
def test_the_order_of_pods_does_not_matter(sequence: list[Step], seed: int) -> None:
    shuffled = played(sequence, shuffled=random.Random(seed))
    assert [entry[3] for entry in shuffled] == [entry[3] for entry in played(sequence)]


@settings(max_examples=60)
@given(sequences())
def test_a_forecast_never_goes_below_what_is_needed_now(sequence: list[Step]) -> None:
    for _, _, observation, decision in played(sequence):
        opinions = [view.desired for view in decision.metrics if view.desired is not None]
        if decision.recommended is not None and observation.idle_since is None:
            assert decision.recommended >= max(opinions)
