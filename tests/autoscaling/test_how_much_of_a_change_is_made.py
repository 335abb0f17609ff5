"""Windows, rates and panic, by the cases of the specification (A16 to A27)."""

import pytest

from headgate.autoscaling import History, MetricTarget, Panic, Policy, Rate
from headgate.autoscaling.correction import correct, with_panic

NOW = 10_000.0
METRICS = (MetricTarget("load", 1.0),)


def held(current: int, *earlier: int, recommended: int | None = None) -> History:
    """Replicas of the last seconds, and one recommendation, all within every window of these tests."""
    history = History.empty()
    for seconds, replicas in enumerate(reversed(earlier), start=1):
        history = history.with_replicas(NOW - seconds, replicas)
    history = history.with_replicas(NOW, current)
    return history if recommended is None else history.with_recommendation(NOW - 5, recommended)


def down(instances: int, percent: int, select: str, window_s: float = 0.0) -> Policy:
    return Policy(METRICS, down=Rate(instances, percent, 60.0, select, window_s))


def up(instances: int, percent: int, select: str, window_s: float = 0.0) -> Policy:
    return Policy(METRICS, up=Rate(instances, percent, 60.0, select, window_s))


@pytest.mark.parametrize(
    ("case", "policy", "expected"),
    [
        ("A16", down(1, 40, "Or"), 6),
        ("A17", down(1, 40, "And"), 9),
        ("A18", down(1, 40, "Neither"), 5),
    ],
)
def test_replicas_go_at_most_at_the_rate(case: str, policy: Policy, expected: int) -> None:
    assert correct(policy, held(10), NOW, 10, 5).desired == expected, case


def test_a_higher_recommendation_inside_the_window_holds_replicas() -> None:
    """A19"""
    history = held(10, recommended=9)
    assert correct(down(2, 20, "Or", window_s=300), history, NOW, 10, 5)[:2] == (9, "StabilizationWindow")


def test_it_is_known_when_more_is_allowed() -> None:
    history = held(10, 12, recommended=9)
    slow = down(6, 20, "Or", window_s=300)
    assert correct(slow, history, NOW, 10, 5) == (9, "StabilizationWindow", NOW - 5 + 300)
    assert correct(down(2, 10, "Or"), history, NOW, 10, 5).until == NOW - 1 + 60
    assert correct(up(2, 10, "Or"), history, NOW, 10, 50).until == NOW + 60
    assert correct(up(2, 1000, "Or"), history, NOW, 10, 11).until is None


def test_replicas_that_went_within_the_period_count() -> None:
    """From 10 in the period to 8, and the rate is 2."""
    assert correct(down(2, 20, "Or"), held(8, 10), NOW, 8, 5)[:2] == (8, "Rate")


@pytest.mark.parametrize(("select", "expected"), [("Or", 10), ("And", 8)])
def test_replicas_come_at_most_at_the_rate(select: str, expected: int) -> None:
    """A21"""
    assert correct(up(3, 100, select), held(5), NOW, 5, 20)[:2] == (expected, "Rate")


def test_a_lower_recommendation_inside_the_window_holds_new_replicas_back() -> None:
    """A22"""
    history = held(5, recommended=12)
    assert correct(up(3, 100, "Or", window_s=60), history, NOW, 5, 20)[:2] == (10, "Rate")
    assert correct(up(20, 100, "Or", window_s=60), history, NOW, 5, 20)[:2] == (12, "StabilizationWindow")


def test_replicas_that_came_within_the_period_count() -> None:
    """A23"""
    assert correct(up(2, 50, "Or"), held(10, 6), NOW, 10, 50)[:2] == (10, "Rate")


def test_nothing_recommended_nothing_done() -> None:
    assert correct(up(2, 50, "Or"), held(10, 6), NOW, 10, 10)[:2] == (10, "")


def in_panic(current: int, *earlier: int) -> tuple[Policy, History]:
    policy = Policy(METRICS, panic=Panic(percent=100, period_s=60, threshold_percent=200, hold_s=60))
    return policy, with_panic(policy, held(current, *earlier), NOW, current, 3 * current)


def test_panic_has_a_rate_of_its_own() -> None:
    """A25"""
    policy, history = in_panic(10, 6)
    assert correct(policy, history, NOW, 10, 30)[:2] == (12, "Panic")


def test_panic_that_has_no_period_has_no_limit() -> None:
    policy, history = in_panic(10, 6)
    assert policy.panic is not None
    policy = policy._replace(panic=policy.panic._replace(period_s=0.0))
    assert correct(policy, history, NOW, 10, 30)[:2] == (30, "")


def test_nothing_goes_in_panic() -> None:
    """A27"""
    policy, history = in_panic(10)
    assert correct(policy, history, NOW, 10, 3)[:2] == (10, "Panic")


def test_panic_ends_after_its_hold() -> None:
    policy, history = in_panic(10)
    assert with_panic(policy, history, NOW + 60, 10, 10).panic_until == NOW + 60
    assert with_panic(policy, history, NOW + 60.1, 10, 10).panic_until is None
    assert with_panic(policy, history, NOW, 10, 20).panic_until == NOW + 60, "at the threshold"
    assert with_panic(policy, History.empty(), NOW, 10, 19).panic_until is None, "below it"


def test_a_policy_without_panic_ends_it() -> None:
    _, history = in_panic(10)
    assert with_panic(Policy(METRICS), history, NOW, 10, 30).panic_until is None
    no_hold = Policy(METRICS, panic=Panic(hold_s=0))
    assert with_panic(no_hold, history, NOW, 10, 30).panic_until is None


@pytest.mark.parametrize("pass_s", [1.0, 15.0])
def test_a_rate_holds_over_many_passes(pass_s: float) -> None:
    """One replica each 15 s, however often it is looked at."""
    policy = Policy(METRICS, up=Rate(1, 0, 15.0, "Or"))
    history, replicas = History.empty(), 1
    for step in range(int(60 / pass_s)):
        now = NOW + step * pass_s
        history = history.with_replicas(now, replicas)
        replicas = correct(policy, history, now, replicas, 100).desired
    assert replicas == 5
