"""What routers of the contest take to be in caches: by their own picks, or by what engines tell."""

from contest.beliefs import KvEvents, OwnPicks
from headgate import routing
from headgate.fleet import EndpointState

HERE, THERE = (EndpointState(routing.Endpoint(name, "127.0.0.1", 8000)) for name in "ab")


def test_own_picks_are_believed_up_to_a_limit():
    """Each endpoint has its own; the tail of what was used longest ago leaves first."""
    beliefs = OwnPicks(4)
    beliefs.booked((1, 2, 3), HERE, 0.0)
    beliefs.booked((1, 8, 9), HERE, 1.0)
    assert beliefs.held((1, 2, 3), HERE, 1.0) == 2
    assert beliefs.held((1, 8, 9), HERE, 1.0) == 3
    assert beliefs.held((1, 8, 9), THERE, 1.0) == 0
    assert beliefs.would_evict(HERE, 1) == [2]
    assert beliefs.would_evict(THERE, 1) == []


def test_a_router_may_look_at_the_front_of_prompts_only():
    """What is behind it makes no difference."""
    beliefs = OwnPicks(100, most_blocks=2)
    beliefs.booked((1, 2, 3), HERE, 0.0)
    assert beliefs.held((1, 2, 3), HERE, 0.0) == 2


def test_kv_events_say_what_is_there():
    """What was picked is not there before that, unless for the seconds that it is expected to be."""
    told, expecting = KvEvents(), KvEvents(speculative_s=2.0)
    for beliefs in (told, expecting):
        beliefs.booked((1, 2, 3), HERE, 0.0)
    assert told.held((1, 2, 3), HERE, 0.0) == 0
    assert expecting.held((1, 2, 3), HERE, 1.9) == 3
    assert expecting.held((1, 2, 3), HERE, 2.0) == 0
    told.stored((1, 2, 3), HERE)
    told.removed((3,), HERE)
    assert told.held((1, 2, 3), HERE, 5.0) == 2
    expecting.stored((1,), HERE)
    expecting.booked((1, 2), HERE, 5.0)
    expecting.booked((1, 2), HERE, 6.0)
    assert expecting.held((1, 2, 3), HERE, 7.5) == 2
    assert expecting.held((1, 2, 3), HERE, 8.0) == 1
