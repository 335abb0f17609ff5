"""Requests take tokens on lease; leases follow use, shrink with what is left, and end with their holder."""

import random

import pytest

from headgate.flow.limits import Claim, LeaseAccount, LeasedBudget, LocalBudget
from headgate.flow.limits.lease_account import GRACE_S, LEASE_S
from headgate.flow.limits.lease_demand import IDLE_S


class Gateways:
    """Some members of one account, whose claims are answered at once."""

    def __init__(self, members: int, limit: int, unit_s: int = 60) -> None:
        self.limit, self.unit_s = limit, unit_s
        self.account = LeaseAccount(LocalBudget(limit, unit_s, 0.0), "first")
        self.called: set[LeasedBudget] = set()
        self.claims = 0
        self.members = [
            LeasedBudget("m", str(each), limit, unit_s, 0.0, self.called.add, members)
            for each in range(members)
        ]

    def talk(self, budget: LeasedBudget, now: float) -> Claim:
        self.called.discard(budget)
        claim = budget.claim(now)
        budget.granted(claim, self.account.claim(claim, now), now)
        self.claims += 1
        return claim

    def sweep(self, now: float) -> None:
        for budget in self.members:
            if budget in self.called or budget.is_due(now):
                self.talk(budget, now)

    def request(self, budget: LeasedBudget, tokens: int, now: float) -> bool:
        """As a gateway does it: what is not on lease is asked for once."""
        if budget.take(tokens, now):
            return True
        if not budget.ask(tokens, now):
            return False
        self.talk(budget, now)
        return budget.take(tokens, now)

    def lose_data(self, now: float) -> None:
        self.account = LeaseAccount(LocalBudget(self.limit, self.unit_s, now), "second")


def test_most_requests_ask_nobody_and_nothing_goes_to_waste():
    """Under a skewed load of twice the limit, all that there is goes out, no more, and in few claims."""
    gateways = Gateways(4, limit=60_000)
    rng = random.Random(5)
    served = requests = 0
    for step in range(60_000):
        now = step / 1000
        if rng.random() < 0.08:
            requests += 1
            (budget,) = rng.choices(gateways.members, (70, 20, 9, 1))
            served += 50 * gateways.request(budget, 50, now)
        if step % 10 == 0:
            gateways.sweep(now)
    there_was = 60_000 + 60 * 1000
    assert 0.98 * there_was <= served <= there_was
    assert gateways.claims < requests / 2


def test_leases_shrink_as_the_budget_runs_out():
    """However much a gateway used of late, it gets no more than half of what is left."""
    gateways = Gateways(2, limit=10_000)
    busy, other = gateways.members
    assert gateways.request(other, 1, 0.0)
    for step in range(98):
        gateways.request(busy, 100, step / 1000)
    level = gateways.account.budget.available(0.1)
    before = busy.statistics(0.1)["leased"]
    claim = gateways.talk(busy, 0.1)
    got = busy.statistics(0.1)["leased"] - before
    assert claim.want - before > level / 2
    assert 0 < got <= level / 2


def test_what_lies_idle_is_given_back():
    """A gateway without requests has nothing on lease after a few seconds."""
    gateways = Gateways(2, limit=10_000)
    (first, _) = gateways.members
    assert gateways.request(first, 100, 0.0)
    assert gateways.account.statistics(0.0)["leased"] > 0
    gateways.sweep(1.5)
    gateways.sweep(1.5 + IDLE_S)
    assert gateways.account.statistics(1.5 + IDLE_S)["leased"] == 0
    assert first.is_settled


def test_the_lease_of_the_dead_returns():
    """What a gateway had on lease when it died is there again once the lease is over, and not before."""
    gateways = Gateways(2, limit=1_000, unit_s=1_000_000_000)
    dead, alive = gateways.members
    assert gateways.request(dead, 500, 0.0)
    leased = gateways.account.statistics(0.0)["leased"]
    assert leased >= 500  # the request itself has not been told of
    gateways.talk(alive, LEASE_S)
    assert gateways.account.statistics(LEASE_S)["leased"] == leased
    gateways.talk(alive, LEASE_S + GRACE_S + 0.1)
    assert gateways.account.statistics(LEASE_S + GRACE_S + 0.1)["leased"] == 0


def test_a_lease_that_is_over_is_not_used():
    """A gateway that could say nothing for long goes no further by what it had, which others may have now."""
    gateways = Gateways(1, limit=1_000)
    (budget,) = gateways.members
    assert gateways.request(budget, 20, 0.0)
    assert budget.take(1, LEASE_S - 0.1)
    assert not budget.take(1, LEASE_S)


def test_a_claim_that_comes_after_a_later_one_says_nothing():
    """The network may deliver an old claim late: neither use nor leases go back to what they were."""
    gateways = Gateways(1, limit=10_000)
    (budget,) = gateways.members
    old = budget.claim(0.0)
    assert gateways.request(budget, 100, 0.0)
    gateways.talk(budget, 0.5)
    before = gateways.account.statistics(0.5)
    grant = gateways.account.claim(old, 0.5)
    assert gateways.account.statistics(0.5) == before
    assert grant.used == 100


def test_shares_add_up_to_what_was_left():
    """Without their account, gateways together use what was left of it and what comes in, and no more."""
    gateways = Gateways(4, limit=6_000)
    for budget in gateways.members:
        assert gateways.request(budget, 700, 0.0)
    for budget in gateways.members * 3:
        gateways.talk(budget, 0.0)
    level = gateways.account.budget.available(0.0)
    leased = gateways.account.statistics(0.0)["leased"]
    for budget in gateways.members:
        budget.disconnect(0.0)
    used = sum(budget.take(10, step / 10) for step in range(50) for budget in gateways.members) * 10
    used += sum(10 for budget in gateways.members for _ in range(1000) if budget.take(10, 5.0))
    assert used <= level + leased + 5.0 * 100
    assert used >= 0.9 * (level + 5.0 * 100)


def test_what_went_without_the_account_is_told_to_it_later():
    """Once the account is there again, it knows of every token that went meanwhile."""
    gateways = Gateways(2, limit=1_000, unit_s=1_000_000)
    first, second = gateways.members
    gateways.talk(first, 0.0)
    gateways.talk(second, 0.0)
    for budget in gateways.members:
        budget.disconnect(1.0)
        assert budget.take(300, 1.0)
        budget.reconnect(2.0)
    assert gateways.called == {first, second}
    gateways.sweep(2.0)
    left = gateways.account.budget.available(2.0) + gateways.account.statistics(2.0)["leased"]
    assert left == pytest.approx(400, abs=0.1)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("away_s", [3, 30])
def test_what_came_in_meanwhile_covers_what_went(is_lost, away_s):
    """After an outage that is longer than the bucket is large, nobody pays for what the shares had room for;
    whether the account is still the same or lost its data."""
    gateways = Gateways(2, limit=1_000, unit_s=1)
    for budget in gateways.members * 2:
        gateways.talk(budget, 0.0)
    for budget in gateways.members:
        budget.disconnect(0.0)
    used = 0
    for step in range(10 * away_s):
        now = step / 10
        used += sum(50 for budget in gateways.members if budget.take(50, now))
    assert 1_000 * away_s - 200 <= used <= 1_000 * (away_s + 1)
    if is_lost:
        gateways.lose_data(away_s)
    for budget in gateways.members:
        budget.reconnect(away_s)
        gateways.talk(budget, away_s)
    level = gateways.account.budget.available(away_s)
    assert -1_000 <= level <= 1_000, "at most the bucket of the beginning is owed"


def test_what_went_beyond_the_shares_is_owed():
    """What answers used beyond what had been reserved for them came from nowhere."""
    gateways = Gateways(1, limit=1_000, unit_s=1)
    (budget,) = gateways.members
    gateways.talk(budget, 0.0)
    budget.disconnect(0.0)
    budget.charge(9_000, 1.0)
    budget.reconnect(5.0)
    gateways.talk(budget, 5.0)
    assert gateways.account.budget.available(5.0) == pytest.approx(1_000 + 5_000 - 9_000, abs=100)


def test_a_strict_budget_gives_nothing_unseen():
    """Where the limit must hold whatever happens, there is no local share; what is on lease goes still."""
    gateways = Gateways(1, limit=1_000)
    (budget,) = gateways.members
    budget.is_strict = True
    assert gateways.request(budget, 10, 0.0)
    leased = int(budget.statistics(0.0)["leased"])
    budget.disconnect(0.0)
    assert budget.take(leased, 0.0)
    assert not budget.take(1, 0.0)
    assert budget.is_cut_off
    assert budget.available(0.0) == 0
    budget.reconnect(0.5)
    assert gateways.request(budget, 10, 0.5)


def test_an_account_replaced_empty_begins_where_the_one_before_was():
    """Members tell what they know of an account whose data were lost: the limit is not granted anew."""
    gateways = Gateways(2, limit=1_000, unit_s=1_000_000_000)
    first, second = gateways.members
    assert gateways.request(first, 600, 0.0)
    assert gateways.request(second, 300, 0.0)
    gateways.talk(first, 0.0)
    gateways.lose_data(1.0)
    gateways.talk(first, 1.0)
    gateways.talk(second, 1.0)
    left = gateways.account.budget.available(1.0) + gateways.account.statistics(1.0)["leased"]
    assert 0 <= left <= 100


def test_what_cannot_be_there_is_not_asked_for():
    """A request that was refused is no reason to ask for each that follows."""
    gateways = Gateways(1, limit=60)
    (budget,) = gateways.members
    assert gateways.request(budget, 60, 0.0)
    assert not gateways.request(budget, 10, 0.0)
    claims = gateways.claims
    for step in range(50):
        assert not gateways.request(budget, 10, step / 100)
    assert gateways.claims == claims
    assert budget.wait_s(10, 0.5) == pytest.approx(9.5)


def test_the_smallest_request_that_waits_gets_what_there_is():
    """Where there is not enough for all that wait, the small are not refused along with the large."""
    gateways = Gateways(2, limit=100)
    other, budget = gateways.members
    assert gateways.request(other, 70, 0.0)
    assert budget.ask(90, 0.0)
    assert budget.ask(20, 0.0)
    gateways.talk(budget, 0.0)
    assert not budget.take(90, 0.0)
    assert budget.take(20, 0.0)


def test_what_is_on_lease_is_waited_for_by_nobody():
    """Though there is not as much as was asked for, and asking again has to wait."""
    gateways = Gateways(2, limit=1_000)
    other, budget = gateways.members
    assert gateways.request(other, 900, 0.0)
    gateways.talk(other, 0.0)
    budget.ask(500, 0.0, least=10)
    gateways.talk(budget, 0.0)
    assert budget.wait_s(500, 0.0) > 0
    assert not budget.lacks(10, 0.0)
    assert budget.wait_s(10, 0.0) == 0


def test_a_change_of_the_limit_holds_at_once():
    """There is never more than the new limit, and a higher one is no refill."""
    gateways = Gateways(1, limit=1_000)
    (budget,) = gateways.members
    assert gateways.request(budget, 900, 0.0)
    budget.change(2_000, 60, 0.0)
    assert budget.available(0.0) <= 100
    budget.change(50, 60, 0.0)
    assert budget.available(0.0) <= 50
    assert not budget.take(51, 0.0)
