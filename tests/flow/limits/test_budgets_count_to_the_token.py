"""A budget fills up evenly to its limit, and neither makes a token nor loses one."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.limits import LocalBudget

MONTH_S = 30 * 86_400


def test_a_budget_starts_full_and_fills_up_evenly():
    """What is taken comes back at the limit's rate, and never to more than the limit."""
    budget = LocalBudget(60, 60, now=100.0)
    assert budget.take(60, 100.0)
    assert not budget.take(1, 100.5)
    assert budget.take(1, 101.0)
    assert budget.available(111.0) == 10.0
    assert budget.available(10_000.0) == 60.0


def test_a_budget_that_was_full_for_long_holds_its_limit():
    """What did not fit in while nobody looked is not there for what is charged or given back then."""
    budget = LocalBudget(60, 60, now=0.0)
    budget.charge(30, 1000.0)
    assert budget.available(1000.0) == 30.0
    budget.give_back(10, 2000.0)
    assert budget.take(60, 2000.0)
    assert not budget.take(1, 2000.0)


def test_what_is_refused_takes_nothing():
    """A request that is refused leaves the tokens to a smaller one."""
    budget = LocalBudget(10, 60, now=0.0)
    assert budget.take(8, 0.0)
    assert not budget.take(8, 0.0)
    assert budget.take(2, 0.0)


def test_one_token_is_enough_to_go_into_debt():
    """Whoever finds a token may overdraw; nobody after that until the debt is paid off."""
    budget = LocalBudget(60, 60, now=0.0)
    assert budget.overdraw(100, 0.0)
    assert budget.available(0.0) == -40.0
    assert not budget.overdraw(1, 40.5)
    assert budget.overdraw(1, 41.0)


def test_the_wait_is_as_long_as_it_takes():
    """At the end of the wait that is told, the tokens are there, and not a microsecond sooner."""
    budget = LocalBudget(7, 60, now=0.0)
    budget.charge(10, 0.0)
    wait_s = budget.wait_s(5, 0.0)
    assert wait_s == pytest.approx(8 * 60 / 7)
    assert not budget.take(5, wait_s - 2e-6)
    assert budget.take(5, wait_s + 2e-6)
    assert budget.wait_s(8, 1000.0) == math.inf
    assert budget.wait_s(7, 1000.0) == 0.0


@pytest.mark.parametrize(
    ("change", "used", "left"),
    [
        ((200, 60), 30, 170),
        ((50, 60), 30, 20),
        ((20, 60), 30, 0),
        ((6000, 3600), 30, 5970),
        ((200, 60), 130, 70),
        ((50, 60), 130, -30),
    ],
)
def test_what_was_used_stays_used_when_the_limit_changes(change, used, left):
    """A changed limit acts at once; it does not fill up, and makes no debt."""
    budget = LocalBudget(100, 60, now=0.0)
    budget.charge(used, 0.0)
    budget.change(*change, 0.0)
    assert budget.limit == change[0]
    assert budget.available(0.0) == left


def test_a_month_of_small_requests_adds_up_to_the_token():
    """Many takings over a month, at odd times, leave what exact arithmetic says."""
    limit = 999_999_937
    budget = LocalBudget(limit, MONTH_S, now=0.1)
    budget.charge(limit, 0.1)
    at = 0.1
    for i in range(20_000):
        at = 0.1 + i * 129.6 + (i % 7) * 0.123_457
        budget.charge(3, at)
        budget.give_back(2, at)
    exact = (Fraction(at) - Fraction(0.1)) * limit / MONTH_S - 20_000
    assert abs(budget.available(at) - exact) < 1e-3


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "overdraw", "give_back", "charge"]),
        st.integers(0, 5000),
        st.floats(0, 10),
    ),
    max_size=40,
)


@given(limit=st.integers(1, 2**31 - 1), unit_s=st.sampled_from([1, 60, 3600, 86_400, MONTH_S]), steps=steps)
def test_a_budget_agrees_with_exact_fractions(limit, unit_s, steps):
    """Whatever is done at whatever times, the level is that of a bucket in exact arithmetic, and who gets
    tokens is decided by it, but for what a nanosecond brings."""
    budget, level, now = LocalBudget(limit, unit_s, 0.0), Fraction(limit), 0.0
    near = 1e-6 + 1e-9 * limit / unit_s
    for what, tokens, after_s in steps:
        then, now = now, now + after_s
        level = min(level + (Fraction(now) - Fraction(then)) * limit / unit_s, Fraction(limit))
        if what in ("take", "overdraw"):
            least = tokens if what == "take" else 1
            got = budget.take(tokens, now) if what == "take" else budget.overdraw(tokens, now)
            assert got == (level >= least) or abs(level - least) < near
            level -= tokens if got else 0
        elif what == "give_back":
            budget.give_back(tokens, now)
            level = min(level + tokens, Fraction(limit))
        else:
            budget.charge(tokens, now)
            level -= tokens
        assert abs(budget.available(now) - level) < near
        wait_s = budget.wait_s(1, now)
        assert wait_s == pytest.approx(max(0.0, float((1 - level) * unit_s / limit)), rel=1e-9, abs=1e-6)
