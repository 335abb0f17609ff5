"""Retries are a share of the requests and a floor, however much fails; savings cover what fails at once."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.fleet import RetryBudget, RetryBudgetPolicy

POLICY = RetryBudgetPolicy()
FLOOR = POLICY.floor_per_s * POLICY.window_s


def outage(rate_per_s: float, seconds: int, healthy_s: int = 600) -> list[int]:
    """Retries granted in each second of an outage in which every request wants one; all was well before."""
    budget = RetryBudget(0.0)
    budget.requests += int(rate_per_s * healthy_s)
    granted = []
    for second in range(seconds):
        before = budget.granted
        for number in range(int(rate_per_s)):
            budget.requests += 1
            budget.take(healthy_s + second + number / rate_per_s)
        granted.append(budget.granted - before)
    return granted


def test_an_outage_is_not_doubled():
    """Once the savings are spent, a pool that fails as a whole gets a fifth more requests, and the floor."""
    granted = outage(rate_per_s=500, seconds=120)
    assert granted[0] == 500
    late = sum(granted[60:]) / 60
    assert 0.9 * (0.2 * 500 + 3) <= late <= 0.2 * 500 + 3


def test_a_fifth_may_fail_for_ever():
    """One endpoint of five that fails every request costs no client anything."""
    budget = RetryBudget(0.0)
    for number in range(50_000):
        budget.requests += 1
        if number % 5 == 0:
            assert budget.take(number / 100)


def test_all_that_is_in_flight_on_one_endpoint_may_fail_at_once():
    """Of requests that take twenty seconds each, a quarter of those in flight is tried elsewhere at once."""
    budget = RetryBudget(0.0)
    budget.requests += 10 * 300
    assert all(budget.take(300.0) for _ in range(10 * 20 // 4))


def test_few_requests_need_no_bound():
    """A pool that gets one request a second may try each again, for ever."""
    assert outage(rate_per_s=1, seconds=1000) == [1] * 1000


def test_savings_are_forgotten():
    """A busy day does not pay for an outage at night."""
    budget = RetryBudget(0.0)
    budget.requests += 1_000_000
    budget.take(1000.0)
    assert budget.take(1000.0 + 20 * POLICY.window_s)
    assert budget.statistics()["saved"] < FLOOR + 10


def test_denials_are_counted():
    """What was refused is told."""
    budget = RetryBudget(0.0)
    asked = [budget.take(0.0) for _ in range(100)]
    assert (sum(asked), budget.statistics()["denied"]) == (FLOOR, 100 - FLOOR)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 1000), st.integers(0, 100)), max_size=30))
def test_never_more_than_was_saved(steps):
    """Whatever the pattern, retries stay within a share of the requests, the floor, and the first savings."""
    budget, now, started = RetryBudget(0.0), 0.0, 0
    for seconds, requests, retries in steps:
        now += seconds
        started += requests
        budget.requests += requests
        for _ in range(retries):
            budget.take(now)
        assert budget.granted <= FLOOR + POLICY.share * started + POLICY.floor_per_s * now + 1e-6
        assert budget.statistics()["saved"] >= 0


def test_a_part_can_be_reserved():
    """Whoever leaves a part to others gets nothing once only that is left, and they get it."""
    budget = RetryBudget(0.0)
    assert sum(budget.take(0.0, reserved=0.5) for _ in range(100)) == FLOOR / 2
    assert sum(budget.take(0.0) for _ in range(100)) == FLOOR / 2
