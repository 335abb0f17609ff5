"""An endpoint is ejected for its share of failures where chance does not explain it, and no other is."""

import random

import pytest

from headgate import fleet, routing
from headgate.fleet.outliers import Tally, is_outlier


class Pool:
    """Endpoints that fail with these probabilities, and get so many requests a second in turn."""

    def __init__(self, failing, per_s=50, seed=1, **policy):
        self.rng = random.Random(seed)
        ledger = fleet.Ledger(fleet.EjectionPolicy(**policy))
        self.failing = list(failing)
        self.loads = [
            ledger.load(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place))
            for place in range(len(self.failing))
        ]
        self.tally, self.now, self.requests = Tally(), 0.0, 0
        self.per_s = per_s

    def run(self, seconds):
        """Returns how many requests failed."""
        failures = 0
        for _ in range(int(seconds * self.per_s)):
            self.now += 1 / self.per_s
            out = fleet.ejected(self.loads, self.now)
            left = [load for load in self.loads if load not in out]
            load = left[self.requests % len(left)]
            self.requests += 1
            failures += self.ask(load)
        return failures

    def ask(self, load):
        booking = load.book(1, 1, self.now)
        booking.end(self.now)
        if self.rng.random() >= self.failing[self.loads.index(load)]:
            if load.suspect_until > self.now:
                load.responded(self.now, self.now)
            load.succeeded(self.now, self.now)
            return False
        load.tally.failed(self.now, load.started)
        self.tally.failed(self.now, self.requests)
        if not load.failed(self.now):
            load.eject_if_outlier(self.tally, self.now)
        return True

    @property
    def ejections(self):
        return [load.ejection.count for load in self.loads]


@pytest.mark.parametrize("share", [0.1, 0.2, 0.35, 0.5])
def test_one_that_fails_some_of_its_requests(share):
    """It is out within half a minute, and no other is."""
    pool = Pool([0.0, share, 0.0, 0.0])
    pool.run(30)
    assert pool.ejections[1] >= 1
    assert pool.ejections[0] == pool.ejections[2] == pool.ejections[3] == 0


def test_it_costs_few_requests_in_the_long_run():
    """Of ten minutes, as it is tried ever less often."""
    pool = Pool([0.0, 0.4, 0.0, 0.0])
    assert pool.run(600) < 0.01 * pool.requests


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_a_pool_that_fails_alike(share, seed):
    """Nobody stands out, whatever the share is."""
    pool = Pool([share] * 4, seed=seed, failures=50)
    pool.run(300)
    assert pool.ejections == [0] * 4


def test_a_few_failures_are_no_evidence():
    """Four of four requests may be chance, as far as this test goes."""
    one, pool = Tally(0.0), Tally(0.0)
    for count in range(1, 5):
        one.failed(0.0, count)
        pool.failed(0.0, 1000 + count)
    assert not is_outlier(one, pool)


def test_a_small_excess_is_not_worth_an_endpoint():
    """However certain it is."""
    pool = Pool([0.0, 0.02, 0.0, 0.0], per_s=1000)
    pool.run(60)
    assert pool.ejections == [0] * 4


def test_two_of_four():
    """Both are found: what the first one failed does not excuse the second."""
    pool = Pool([0.0, 0.5, 0.3, 0.0])
    pool.run(60)
    assert pool.ejections[1] >= 1
    assert pool.ejections[2] >= 1
    assert pool.ejections[0] == pool.ejections[3] == 0


def test_who_is_well_again_stays():
    """A single failure on its return is no relapse."""
    pool = Pool([0.0, 0.5, 0.0, 0.0])
    pool.run(20)
    before = pool.ejections[1]
    pool.failing[1] = 0.01
    pool.run(120)
    assert pool.ejections[1] <= before + 1
    assert not fleet.ejected(pool.loads, pool.now)


def test_who_is_not_well_goes_for_longer():
    """A relapse takes few requests, and doubles the time."""
    pool = Pool([0.0, 0.5, 0.0, 0.0])
    pool.run(300)
    assert pool.loads[1].ejection.length_s >= 40


def test_an_answer_to_an_earlier_request_brings_nobody_back():
    """Half of its answers are good: those that were on their way as it was ejected tell nothing new."""
    pool = Pool([0.0, 0.5, 0.0, 0.0])
    while not pool.ejections[1]:
        pool.run(0.02)
    load = pool.loads[1]
    load.responded(pool.now + 0.1, pool.now - 1)
    assert load.ejection.until > pool.now + 1


def test_nobody_is_ejected_where_that_is_off():
    """A count of 0 ends ejections of both kinds."""
    pool = Pool([0.0, 0.5, 0.0, 0.0], failures=0)
    pool.run(60)
    assert pool.ejections == [0] * 4


@pytest.mark.parametrize(
    ("percent", "count", "most"), [(50, 4, 2), (50, 3, 1), (50, 1, 0), (100, 4, 3), (10, 9, 0), (0, 9, 0)]
)
def test_how_many_may_be_ejected(percent, count, most):
    """That part of the pool, rounded down; one always stays."""
    loads = Pool([1.0] * count, most_percent=percent, failures=1).loads
    for load in loads:
        load.failed(0.0)
    assert len(fleet.ejected(loads, 1.0)) == fleet.most_ejected(loads) == most
