"""While its account is out of reach, a budget says truly what may go, and counts each token once."""

import math

import pytest

from headgate.flow.limits import LeaseAccount, LeasedBudget, LocalBudget

LIMIT, UNIT_S = 900, 90


@pytest.fixture
def leased():
    """Makes one of several members of an account, with tokens on lease."""

    def make(members: int, tokens: int = 0) -> LeasedBudget:
        account = LeaseAccount(LocalBudget(LIMIT, UNIT_S, 0.0), "one")
        budget = LeasedBudget("m", "a", LIMIT, UNIT_S, 0.0, lambda _: None, members)
        if tokens:
            budget.ask(tokens, 0.0)
        claim = budget.claim(0.0)
        budget.granted(claim, account.claim(claim, 0.0), 0.0, members)
        return budget

    return make


def test_a_prompt_beyond_the_share_may_pass_later(leased):
    """It is within the limit: with the account back it may go, and its client is not told otherwise."""
    budget = leased(members=3)
    budget.disconnect(0.0)
    assert not budget.take(400, 0.0)
    assert 0 < budget.wait_s(400, 0.0) < math.inf
    assert budget.wait_s(LIMIT + 1, 0.0) == math.inf


def test_the_wait_for_a_share_counts_what_is_on_lease(leased):
    """What is told to be missing is what is missing."""
    budget = leased(members=1, tokens=200)
    budget.disconnect(0.0)
    assert budget.overdraw(890, 0.0)
    budget.give_back(90, 0.0)
    assert not budget.take(110, 0.0)
    assert budget.wait_s(110, 0.0) == pytest.approx(1.0)
    assert budget.take(110, 1.0)


def test_there_is_never_more_than_the_limit(leased):
    """Not even where a share fills up beside a lease."""
    budget = leased(members=1, tokens=200)
    budget.disconnect(0.0)
    assert budget.available(0.0) == budget.available(9.0) == LIMIT


@pytest.mark.parametrize("tokens", [50, 150, 300])
def test_what_comes_back_is_there_once(leased, tokens):
    """A reservation that nothing was used of leaves as much as there was: of a lease, a share or both."""
    budget = leased(members=1, tokens=100)
    budget.disconnect(0.0)
    budget.overdraw(200, 0.0)
    budget.give_back(200, 0.0)
    assert budget.take(tokens, 0.0)
    budget.give_back(tokens, 0.0)
    assert not budget.take(LIMIT + 1, 0.0)
    assert budget.take(LIMIT, 0.0)


def test_what_is_used_of_a_lease_is_charged_once(leased):
    """More than was reserved comes from the lease as long as there is some."""
    budget = leased(members=1, tokens=100)
    budget.disconnect(0.0)
    before = budget.available(0.0)
    budget.charge(60, 0.0)
    assert budget.available(0.0) == before - 60
    budget.charge(60, 0.0)
    assert budget.available(0.0) == before - 120
