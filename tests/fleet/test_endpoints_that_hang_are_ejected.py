"""An endpoint that takes requests and answers none is left out, if others show that it need not be so."""

import pytest

from headgate import fleet, routing

POLICY = fleet.EjectionPolicy()


def load(place: int = 0, policy: fleet.EjectionPolicy = POLICY) -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place), policy)


@pytest.fixture
def pool():
    """The first of three hangs; the others were heard of just now."""
    loads = [load(place) for place in range(3)]
    loads[0].hanging = POLICY.hang_requests
    for other in loads[1:]:
        other.heard_at = 100.0
    return loads


def test_several_requests_without_an_answer(pool):
    """It is ejected as if it had failed often enough, though none of its requests has."""
    assert fleet.hung(pool, 100.0) == [pool[0]]
    assert pool[0].hangs(100.0)
    assert fleet.ejected(pool, 100.0) == [pool[0]]
    assert fleet.hung(pool, 101.0) == []


def test_one_slow_answer_proves_nothing(pool):
    """Two requests may just be long ones."""
    pool[0].hanging = POLICY.hang_requests - 1
    assert fleet.hung(pool, 100.0) == []


def test_one_who_is_heard_of_is_busy(pool):
    """Bytes on any of its streams show that it works."""
    pool[0].heard_at = 100.0 - POLICY.hang_s
    assert fleet.hung(pool, 100.0) == []


def test_silence_of_all_says_nothing_of_one(pool):
    """Where no other answers either, all may be waiting for the same thing."""
    assert fleet.hung(pool, 100.1 + POLICY.hang_s) == []
    assert fleet.hung(pool[:1], 100.0) == []


def test_half_of_a_pool_stays(pool):
    """Two of three hang: the one that is known to for longer takes part again."""
    pool[1].hanging, pool[1].heard_at = 5, -1.0
    for number, each in enumerate(fleet.hung(pool, 100.0)):
        each.hangs(100.0 + number)
    assert fleet.ejected(pool, 101.0) == [pool[1]]


def test_it_can_be_turned_off():
    """Without ejection there is none for silence."""
    loads = [load(place, fleet.EjectionPolicy(failures=0)) for place in range(2)]
    loads[0].hanging, loads[1].heard_at = 9, 100.0
    assert fleet.hung(loads, 100.0) == []


def test_still_silent_after_the_return(pool):
    """Who hangs on is out for twice as long; an answer ends it."""
    for now, length in ((100.0, 5.0), (105.0, 10.0), (115.0, 20.0)):
        pool[1].heard_at = now
        assert fleet.hung(pool, now) == [pool[0]]
        pool[0].hangs(now)
        assert pool[0].ejection.length_s == length
    pool[0].succeeded(116.0)
    assert fleet.ejected(pool, 116.0) == []
