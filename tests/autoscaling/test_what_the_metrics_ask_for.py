"""The recommendation from metrics, by the cases of the specification (A1 to A15, A38)."""

import pytest

from headgate.autoscaling import (
    Bounds,
    Decision,
    History,
    MetricTarget,
    Observation,
    PodSample,
    Policy,
    Rate,
    Total,
    decide,
)

FREE = Rate(period_s=0.0)


def policy(*targets: tuple[str, float], tolerance: float = 0.0) -> Policy:
    metrics = tuple(MetricTarget(name, value) for name, value in targets or [("load", 1.0)])
    return Policy(metrics, tolerance_percent=tolerance, up=FREE, down=FREE)


def pods(ready: int, value: float | None, *, unready: int = 0, name: str = "load") -> list[PodSample]:
    values = {} if value is None else {name: value}
    return [
        *(PodSample(f"ready-{i}", True, values) for i in range(ready)),
        *(PodSample(f"unready-{i}", False, {}) for i in range(unready)),
    ]


def decided(
    rules: Policy,
    current: int,
    samples: list[PodSample] | None = None,
    *,
    totals: dict[str, Total] | None = None,
    least: int = 1,
    most: int = 100,
    ready: int | None = None,
) -> Decision:
    observation = Observation(
        now=1_000.0,
        current=current,
        ready=current if ready is None else ready,
        pods=samples or [],
        totals=totals or {},
    )
    return decide(rules, Bounds(least, most), History.empty(), observation)[0]


def test_too_few_replicas_are_completed_before_any_metric() -> None:
    """A1"""
    decision = decided(policy(), 4, least=5, most=10)
    assert (decision.desired, decision.rule, decision.recommended) == (5, "Minimum", None)


def test_too_many_replicas_go_before_any_metric() -> None:
    decision = decided(policy(), 12, least=5, most=10)
    assert (decision.desired, decision.rule) == (10, "Maximum")


def test_without_any_metric_nothing_changes() -> None:
    """A3"""
    decision = decided(policy(), 7, pods(7, None))
    assert (decision.desired, decision.rule, decision.recommended) == (7, "MetricMissing", None)


def test_the_metric_that_needs_most_replicas_decides() -> None:
    """A4"""
    values = {"a": 6.0, "b": 500.0, "c": 20.0}
    samples = [PodSample(f"pod-{i}", True, values) for i in range(3)]
    decision = decided(policy(("a", 3), ("b", 5), ("c", 4)), 3, samples, most=1_000)
    assert (decision.desired, decision.metric, decision.value, decision.target) == (300, "b", 1500.0, 5)
    assert [view.desired for view in decision.metrics] == [6, 300, 15]


def test_starting_replicas_that_would_turn_the_direction_hold_it() -> None:
    """A10"""
    decision = decided(policy(), 58, pods(8, 3.9, unready=50), ready=8)
    assert (decision.desired, decision.rule) == (58, "NotReady")


def test_missing_pods_count_as_busy_when_replicas_go() -> None:
    """A11"""
    samples = pods(8, 0.5) + [PodSample(f"mute-{i}", True, {}) for i in range(2)]
    assert decided(policy(), 10, samples).desired == 6
    assert decided(policy(), 10, pods(8, 0.5)).desired == 6, "Pods that do not exist are missing too"


def test_missing_pods_count_as_idle_when_replicas_come() -> None:
    """A12"""
    assert decided(policy(), 10, pods(8, 2.9)).desired == 24


def test_the_tolerance_is_around_the_current_number() -> None:
    """A15, and the two defects of a tolerance around one replica's worth of load."""
    total = {"load": Total(44.9)}
    assert decided(policy(("load", 3), tolerance=51), 10, totals=total).desired == 10
    assert decided(policy(("load", 3), tolerance=49), 10, totals=total).desired == 15
    assert decided(policy(tolerance=10), 5, totals={"load": Total(5.05)}).desired == 5
    assert decided(policy(tolerance=10), 5, totals={"load": Total(1.0)}).desired == 1
    assert decided(policy(tolerance=10), 5, pods(5, 0.2)).desired == 1


def test_a_pod_that_is_not_ready_hides_no_other() -> None:
    """A38"""
    assert decided(policy(), 2, pods(1, 2.6, unready=1), ready=1).desired == 3


def test_sums_and_means_are_told_apart() -> None:
    """A mean of 0.8 with a target of 0.5 asks for 1.6 times the replicas that serve."""
    usage = policy(("usage", 0.5))
    assert decided(usage, 10, totals={"usage": Total(0.8, is_ratio=True)}).desired == 16
    assert decided(usage, 10, totals={"usage": Total(0.8)}).desired == 2
    starting = decided(usage, 16, totals={"usage": Total(0.8, is_ratio=True)}, ready=10)
    assert starting.desired == 16, "the six that start are what was asked for"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_value_that_cannot_be_is_missing(value: float) -> None:
    assert decided(policy(), 3, totals={"load": Total(value)}).rule == "MetricMissing"
    assert decided(policy(), 3, pods(3, value)).desired == 3


def test_a_metric_without_value_keeps_the_others_from_removing_replicas() -> None:
    both = policy(("a", 1), ("b", 1))
    decision = decided(both, 5, totals={"a": Total(2.0)})
    assert (decision.desired, decision.rule) == (5, "MetricMissing")
    assert decided(both, 5, totals={"a": Total(9.0)}).desired == 9


def test_the_message_says_what_and_why() -> None:
    decision = decided(policy(("work", 8)), 3, totals={"work": Total(41.2)})
    assert decision.message == (
        "Scale up from 3 to 6 replicas: work is 41.2 in total, which needs 5.15 at 8 each."
    )
