"""Requests for an adapter go where it is at home: one endpoint while they are few, more as they need."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing, scheduling
from headgate.fleet import EngineReading
from headgate.scheduling.homes import HOME_REQUESTS, IDLE_S


def pool_of(count, **reading):
    ledger = fleet.Ledger()
    loads = [ledger.load(routing.Endpoint(f"default/pod-{n}", "127.0.0.1", 8000 + n)) for n in range(count)]
    for load in loads:
        if reading:
            load.read(EngineReading(at=0.0, **reading))
    return loads


class Client:
    """Sends requests through a policy, and keeps them in flight."""

    def __init__(self, pool):
        self.pool = pool
        self.policy = scheduling.WithAdapters(scheduling.LeastWork())
        self.rng = random.Random(0)
        self.flights = []

    def send(self, adapter, now=0.0, ends=False):
        """Where a request goes; it stays in flight unless it ends at once."""
        request = scheduling.Request(model=adapter or "base", adapter=adapter, prompt_tokens=100)
        choice = scheduling.pick(self.policy, request, self.pool, now, self.rng)
        booking = choice.load.book(100, 0, now, adapter=adapter)
        self.policy.booked(request, choice, now)
        if ends:
            booking.end(now)
        else:
            self.flights.append(booking)
        return choice.load


def test_a_cold_adapter_has_one_endpoint():
    """However idle the others are: each would have to load it."""
    client = Client(pool_of(8))
    assert len({client.send("a", now=float(n), ends=True) for n in range(50)}) == 1


def test_all_gateways_find_the_same_home():
    """An adapter's name leads to it, without a word between them; names lead to different ones."""
    homes = [[Client(pool_of(8)).send(f"adapter-{n}").endpoint for n in range(20)] for _ in range(2)]
    assert homes[0] == homes[1]
    assert len(set(homes[0])) > 4


def test_a_busy_adapter_gets_more_endpoints():
    """As many as its requests need, and no more."""
    client = Client(pool_of(8))
    for _ in range(HOME_REQUESTS):
        client.send("a")
    assert len({flight.load for flight in client.flights}) == 1
    for _ in range(2 * HOME_REQUESTS):
        client.send("a")
    assert 2 <= len({flight.load for flight in client.flights}) <= 3


def test_an_adapter_whose_requests_fall_goes_back_to_one_endpoint():
    """The others drop it when they need the place."""
    client = Client(pool_of(8))
    for _ in range(4 * HOME_REQUESTS):
        client.send("a")
    for flight in client.flights:
        flight.end(1.0)
    assert len({client.send("a", now=2.0 + n, ends=True) for n in range(20)}) == 1
    client.send("a", now=IDLE_S + 30.0, ends=True)
    assert len(client.policy.homes.of("a")) == 1


def test_an_adapter_goes_where_it_is_loaded():
    """Another gateway has sent requests for it there, which only the engine tells."""
    pool = pool_of(8, max_adapters=2)
    pool[5].read(EngineReading(at=0.0, max_adapters=2, adapters_running=frozenset({"a", "b"})))
    assert Client(pool).send("a") is pool[5]


def test_an_adapter_goes_where_it_fits():
    """Endpoints whose places are all in use would let it wait."""
    pool = pool_of(4, max_adapters=2, adapters_running=frozenset({"b", "c"}))
    pool[2].read(EngineReading(at=0.0, max_adapters=2, adapters_running=frozenset({"b"})))
    assert Client(pool).send("a") is pool[2]


def test_an_adapter_leaves_an_endpoint_whose_places_others_have_taken():
    """It would have to push one of them out to come back."""
    pool = pool_of(4, max_adapters=2)
    client = Client(pool)
    home = client.send("a", ends=True)
    home.read(EngineReading(at=1.0, max_adapters=2, adapters_running=frozenset({"b", "c"})))
    assert client.send("a", now=1.0) is not home


def test_an_adapter_goes_to_endpoints_that_know_it():
    """The others would answer that there is no such model."""
    pool = pool_of(4, models=frozenset({"base"}))
    pool[1].read(EngineReading(at=0.0, models=frozenset({"base", "a"})))
    assert Client(pool).send("a") is pool[1]


@pytest.mark.parametrize(
    "reading",
    [
        {"models": frozenset({"base"})},
        {"max_adapters": 1, "adapters_running": frozenset({"b"})},
        {"max_adapters": 0},
    ],
    ids=["nobody knows it", "nobody has a place", "nobody takes adapters"],
)
def test_if_no_endpoint_can_all_are_asked(reading):
    """A list may be out of date, and a place may become free: refusing helps nobody."""
    client = Client(pool_of(4, **reading))
    assert client.send("a") in client.pool


def test_a_home_that_was_tried_is_replaced():
    """A retry goes on to another endpoint."""
    client = Client(pool_of(4))
    home = client.send("a")
    request = scheduling.Request(model="a", adapter="a", prompt_tokens=100)
    choice = scheduling.pick(client.policy, request, client.pool, 0.0, client.rng, [home])
    assert choice.load is not home


def test_requests_for_the_base_model_go_anywhere():
    """The rule is of adapters alone."""
    client = Client(pool_of(4))
    assert {client.send("") for _ in range(4)} == set(client.pool)


def test_the_policy_is_asked_for_everything_else():
    """What it says of itself is said of both, and what is noted of a choice comes to it."""

    class Known(scheduling.Policy):
        name, uses_prefix, judges_decoding, remote_tokens, marks_responses = "known", True, False, 7, True

        def pick(self, request, candidates, now, rng):
            return scheduling.Choice(load=candidates[0])

        def booked(self, request, choice, now):
            self.noted = choice

        def refusal(self, request, candidates, now):
            return scheduling.Refused(why=f"of {len(candidates)}")

        def marks(self, request, choice):
            return [(b"x", b"y")]

    known, pool = Known(), pool_of(4)
    policy = scheduling.WithAdapters(known)
    told = [name for name in scheduling.Policy.__annotations__ if not name.startswith("_")]
    assert {name: getattr(policy, name) for name in told} == {name: getattr(known, name) for name in told}
    request = scheduling.Request(model="a", adapter="a", prompt_tokens=100)
    choice = scheduling.pick(policy, request, pool, 0.0, random.Random(0))
    policy.booked(request, choice, 0.0)
    assert known.noted is choice
    assert policy.marks(request, choice) == [(b"x", b"y")]
    assert policy.refusal(request, pool, 0.0).why == "of 1"


def test_what_is_passed_over_says_why():
    """For explanations; those that were asked tell what the policy says of them."""
    client = Client(pool_of(3))
    request = scheduling.Request(model="a", adapter="a", prompt_tokens=100)
    choice = scheduling.pick(client.policy, request, client.pool, 0.0, client.rng)
    reasons = client.policy.reasons(request, client.pool, choice, 0.0)
    assert reasons.pop(choice.load) == "owes the least work"
    assert set(reasons.values()) == {"adapter a is kept on others"}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghij"), st.floats(0, 40), st.integers(0, 3)), min_size=1, max_size=60
    )
)
def test_homes_are_kept_within_the_places_of_engines(steps):
    """Whatever is asked for, and whenever: the books of adapters and of endpoints agree."""
    client = Client(pool_of(3, max_adapters=2))
    homes, now = client.policy.homes, 0.0
    for adapter, pause_s, ended in steps:
        now += pause_s
        client.send(adapter, now)
        for flight in client.flights[:ended]:
            flight.end(now)
        del client.flights[:ended]
        housed = {(each, load) for load, each_of in homes._housed.items() for each in each_of}
        assert housed == {(each, load) for each, used in homes._used.items() for load in used}
        assert all(1 <= len(each_of) <= 2 for each_of in homes._housed.values())
        assert all(homes._used.values())
