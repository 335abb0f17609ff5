"""Who keeps failing is ejected for a time that grows; never more than half of a pool; the return is slow."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate import fleet, routing, scheduling

POLICY = fleet.EjectionPolicy()


def load(place: int = 0, policy: fleet.EjectionPolicy = POLICY) -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place), policy)


REQUEST = scheduling.Request(model="m", prompt_tokens=10)


def pick(
    pool: list[fleet.EndpointState],
    now: float,
    rng: random.Random,
    tried: Sequence[fleet.EndpointState] = (),
) -> fleet.EndpointState | None:
    choice = scheduling.pick(scheduling.LeastWork(), REQUEST, pool, now, rng, tried)
    return choice.load if choice is not None else None


def fail(endpoint: fleet.EndpointState, now: float, times: int = POLICY.failures) -> bool:
    return [endpoint.failed(now) for _ in range(times)][-1]


def test_fifth_failure_in_a_row_ejects():
    """Four are bad luck; the fifth says that it ejected the endpoint."""
    endpoint = load()
    assert [endpoint.failed(100.0 + at) for at in range(5)] == [False] * 4 + [True]
    assert (endpoint.ejection.until, endpoint.failures) == (109.0, 5)


def test_success_begins_the_count_anew():
    """Failures that are not in a row never eject, however many."""
    endpoint = load()
    for at in range(100):
        assert not fail(endpoint, at, times=4)
        endpoint.succeeded(at)
    assert (endpoint.ejection.count, endpoint.failures) == (0, 400)


def test_ejections_of_one_who_is_dead_grow():
    """One failure after each return is enough, and doubles the time, up to five minutes."""
    endpoint, now, lengths = load(), 0.0, []
    assert fail(endpoint, now)
    for _ in range(9):
        lengths.append(endpoint.ejection.until - now)
        now = endpoint.ejection.until
        assert endpoint.failed(now)
    assert lengths == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_failures_amid_an_ejection_do_not_make_it_longer():
    """They are of requests that were under way: a busy endpoint must not pay for having been busy."""
    endpoint = load()
    fail(endpoint, 0.0)
    assert not fail(endpoint, 4.9, times=100)
    assert endpoint.ejection.until == 5.0


def test_good_conduct_is_rewarded():
    """Who serves for as long as it was away begins at five seconds again; who fails sooner does not."""
    endpoint = load()
    fail(endpoint, 0.0)
    assert endpoint.failed(5.0)  # away until 15
    endpoint.succeeded(15.0)
    assert fail(endpoint, 20.0)
    assert endpoint.ejection.length_s == 20.0  # away until 40
    endpoint.succeeded(40.0)
    assert fail(endpoint, 61.0)
    assert endpoint.ejection.length_s == 5.0


def test_a_new_process_returns_at_once():
    """With a small share; its first failure ejects it again, for twice as long."""
    endpoint = load()
    fail(endpoint, 100.0)
    endpoint.begins_anew(102.0)
    assert endpoint.share(102.0) == 0.1
    assert endpoint.failed(103.0)
    assert endpoint.ejection.until == 113.0


def test_a_request_that_was_rejected_is_tried_on_an_ejected_endpoint_before_it_fails():
    """The others want none, and one that failed a while ago may be well. A request that was not tried yet
    goes to one of those that rest."""
    pool = [load(place) for place in range(4)]
    fail(pool[0], 100.0)
    for resting in pool[2:]:
        resting.rests(101.0, 20.0)
    rng = random.Random(1)
    assert pick(pool, 101.5, rng, tried=[pool[1]]) is pool[0]
    fail(pool[1], 102.0)
    assert pick(pool, 102.5, rng) in pool[2:]


def test_those_that_answered_are_tried_again_while_few_are_well():
    """Once the first time of an ejection is over, and once a second; not those that did not answer at all."""
    pool = [load(place) for place in range(4)]
    rng = random.Random(1)
    for endpoint, reason in zip(pool, ("status_500", "hang"), strict=False):
        for _ in range(5):
            endpoint.failed(100.0, reason)
        endpoint.ejection.until, endpoint.ejection.length_s = 140.0, 40.0

    def picked(now, tried=()):
        return {pick(pool, now, rng, tried) for _ in range(50)}

    assert picked(110.0) == {pool[2], pool[3]}, "half of the pool is well"
    pool[2].suspected(110.0)
    assert picked(110.5) == {pool[0], pool[3]}
    pool[0].failed(110.5, "status_500")
    assert picked(110.6) == {pool[3]}
    pool[2].suspected(112.0)
    assert picked(112.1) == {pool[0], pool[3]}
    assert picked(104.0) == {pool[3]}, "its first time is not over"


def test_who_returns_is_not_eased_in_while_few_are_well():
    """Those would be crowded."""
    pool = [load(place) for place in range(3)]
    for returning in pool[:2]:
        assert [returning.failed(100.0, "status_503") for _ in range(5)][-1]
    rng = random.Random(1)
    count = sum(pick(pool, 105.5, rng) in pool[:2] for _ in range(300))
    assert 150 < count < 250


def test_who_returns_shares_requests_however_it_failed():
    """When a whole pool comes back from connections that broke, none of it has all requests alone."""
    pool, now, rng = [load(place) for place in range(2)], 0.0, random.Random(1)
    for each in pool:
        fail(each, now)
        each.succeeded(2.0)
    picked = [pick(pool, 2.5, rng) for _ in range(40)]
    assert all(picked.count(each) > 10 for each in pool)


def test_those_that_serve_most_requests_share_them_though_all_failed_lately():
    """Where each fails now and then, all are avoided, and requests still go to all of them."""
    pool, rng = [load(place) for place in range(3)], random.Random(1)
    for each in pool:
        each.failed(0.0)
    assert {pick(pool, 0.5, rng) for _ in range(40)} == {pool[0]}
    for each in pool[1:]:
        each.succeeded(0.1)
    assert {pick(pool, 0.5, rng) for _ in range(40)} == set(pool[1:])


def test_nobody_is_suspected_for_a_rest_that_is_over():
    """It may have been a limit of one client; and a rest outlasts an ejection in it."""
    endpoint = load()
    endpoint.rests(0.0, 300.0)
    endpoint.rested()
    assert endpoint.suspect_until <= 0.0
    endpoint.rests(0.0, 300.0)
    fail(endpoint, 1.0)
    assert endpoint.suspect_until == endpoint.resting_until == 300.0
    endpoint.responded(2.0)
    assert endpoint.suspect_until == 12.0
    other = load(1)
    other.suspected(5.0)
    other.cleared()
    assert other.suspect_until <= 5.0


def test_answer_ends_an_ejection():
    """Asked nevertheless, since others failed as well, it has shown that it serves."""
    endpoint = load()
    fail(endpoint, 0.0)
    endpoint.succeeded(2.0)
    assert fleet.ejected([endpoint, load(1)], 2.0) == []
    assert endpoint.share(2.0) == 0.1


@pytest.mark.parametrize(("asked_at", "rests"), [(1.999, True), (2.0, False), (2.001, False)])
def test_answer_ends_a_rest_that_had_begun_when_it_was_asked(asked_at, rests):
    """The clock of an event loop has milliseconds, and an endpoint may answer twice in one."""
    endpoint = load()
    endpoint.rests(2.0, 50.0)
    endpoint.responded(2.002, asked_at)
    assert (endpoint.resting_until > 2.002) == rests


def test_answers_that_begin_and_break_are_failures_in_a_row():
    """That an answer began ends an ejection; only one that ended well sets the count to zero."""
    endpoint = load()
    for at in range(4):
        endpoint.responded(float(at))
        assert not endpoint.failed(float(at))
    endpoint.responded(4.0)
    assert endpoint.failed(4.0)
    endpoint.responded(5.0)
    assert (endpoint.ejection.until, endpoint.failures_in_row) == (5.0, 5)
    endpoint.succeeded(6.0)
    assert endpoint.failures_in_row == 0


def test_ejection_can_be_turned_off():
    """With a count of 0 an endpoint is avoided for a second after a failure, and that is all."""
    endpoint = load(policy=fleet.EjectionPolicy(failures=0))
    assert not fail(endpoint, 0.0, times=1000)
    assert (endpoint.ejection.count, endpoint.suspect_until) == (0, 1.0)


def test_share_grows_after_the_return():
    """From a tenth to all of it within ten seconds."""
    endpoint = load()
    assert endpoint.share(0.0) == 1.0
    fail(endpoint, 0.0)
    shares = [endpoint.share(at) for at in (0.0, 4.9, 5.0, 7.5, 10.0, 15.0)]
    assert shares == [0, 0, 0.1, 0.25, 0.5, 1]
    assert endpoint.suspect_until == 15.0


def test_returning_endpoint_of_an_idle_pool_is_eased_in():
    """While nobody owes anything, its part of the requests grows to that of the others."""
    pool, rng = [load(place) for place in range(4)], random.Random(5)
    fail(pool[0], 0.0)
    got = []
    for second in range(5, 16):
        picked = [pick(pool, float(second), rng) for _ in range(2000)]
        got.append(picked.count(pool[0]))
    shares = [pool[0].share(float(second)) for second in range(5, 16)]
    fair = 2000 / 4
    assert all(abs(count - share * fair) < 4 * fair**0.5 for count, share in zip(got, shares, strict=True))


def test_returning_endpoint_of_a_busy_pool_is_eased_in():
    """It gets new work until it owes its share of what each of the others owes, and no burst beyond."""
    pool, rng = [load(place) for place in range(4)], random.Random(5)
    fail(pool[0], 0.0)
    for other in pool[1:]:
        other.prefill_tokens = 10_000
    for second in range(5, 15):
        for _ in range(500):
            if pick(pool, float(second), rng) is pool[0]:
                pool[0].prefill_tokens += 100
        most = pool[0].share(float(second)) * 10_000
        assert most <= pool[0].work_tokens <= most + 100


def test_those_that_failed_least_recently_return():
    """Of three that are ejected from a pool of four, two stay out: the last that failed."""
    pool = [load(place) for place in range(4)]
    for at, endpoint in enumerate((pool[2], pool[0], pool[1])):
        fail(endpoint, float(at))
    assert fleet.ejected(pool, 2.5) == [pool[1], pool[0]]
    assert fleet.ejected(pool[:1], 2.5) == []


@given(st.integers(1, 9), st.lists(st.integers(0, 8), max_size=9), st.randoms(use_true_random=False))
def test_every_pool_has_somebody(size, failing, rng):
    """Whoever is ejected, the first try finds an endpoint that is not."""
    pool = [load(place) for place in range(size)]
    for at, place in enumerate(failing):
        fail(pool[place % size], float(at))
    now = len(failing) + 1.0
    out = fleet.ejected(pool, now)
    assert len(out) <= size // 2
    picked = pick(pool, now, rng)
    assert picked is not None
    assert picked not in out


class Outages(RuleBasedStateMachine):
    """A pool whose endpoints die and come back; each request is tried until one answers."""

    @initialize(size=st.integers(1, 6), seed=st.integers(0, 1000))
    def begin(self, size, seed):
        self.now = 1000.0
        self.rng = random.Random(seed)
        self.pool = [load(place) for place in range(size)]
        self.dead = set()

    @rule(data=st.data())
    def dies(self, data):
        self.dead.add(data.draw(st.sampled_from(self.pool)))

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def comes_back(self, data):
        self.dead.remove(data.draw(st.sampled_from(sorted(self.dead, key=lambda each: each.endpoint.port))))

    @rule(data=st.data(), seconds=st.sampled_from((1.0, 30.0, 1e9)), is_over=st.booleans())
    def asks_for_a_rest(self, data, seconds, is_over):
        endpoint = data.draw(st.sampled_from(self.pool))
        endpoint.rests(self.now, seconds)
        if is_over:
            endpoint.rested()

    @rule(seconds=st.sampled_from((0.01, 1.0, 5.0, 30.0, 400.0)))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(count=st.integers(1, 12))
    def requests(self, count):
        for _ in range(count):
            tried = []
            while (picked := pick(self.pool, self.now, self.rng, tried)) is not None:
                assert picked not in tried
                tried.append(picked)
                was_out = picked.ejection.until > self.now
                if picked not in self.dead:
                    picked.succeeded(self.now)
                    assert not picked.ejection.until > self.now
                    break
                assert not (picked.failed(self.now) and was_out)
            # Everybody was asked before the request was given up.
            assert tried[-1] not in self.dead or len(tried) == len(self.pool)

    @invariant()
    def the_bounds_hold(self):
        out = fleet.ejected(self.pool, self.now)
        assert len(out) <= len(self.pool) // 2
        for each in self.pool:
            assert 0.0 <= each.share(self.now) <= 1.0
            assert each.ejection.until <= self.now + POLICY.longest_s
            back_at = each.ejection.until + POLICY.slow_start_s
            assert each.suspect_until == max(each.avoided_until, each.resting_until, back_at)
            assert each.suspect_until > self.now or (each.share(self.now) == 1 and not each.avoided(self.now))
            assert each.failures_in_row <= each.failures
            assert each.failures > 0 or each.ejection.until == -math.inf

    @invariant()
    def an_outage_ends(self):
        """Nobody is out for longer than the longest ejection, its slow start included."""
        later = self.now + POLICY.longest_s + POLICY.slow_start_s
        assert all(each.suspect_until <= later for each in self.pool)


TestOutages = Outages.TestCase
