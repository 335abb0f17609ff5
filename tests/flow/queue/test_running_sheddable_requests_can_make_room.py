"""Where it is set, running sheddable requests end for more important ones that wait."""

import pytest


@pytest.fixture
def running(queue_of, wait, room):
    """A queue with sheddable requests that run, from -2 and -1 twice, and a pool that is full of them."""
    queue = queue_of(evicts_running=True)
    room.slots = 3
    sent = []
    for owner, priority in (("lowest", -2), ("older", -1), ("newer", -1)):
        assert not queue.passes(priority, 0.0), "it has to be known while it runs"
        queue.enter(wait(owner, priority=priority), 0.0)
        sent.append(queue.next(0.0))
    return queue, sent


def test_nothing_is_ended_unless_somebody_more_important_waits(running, wait):
    """Neither for nobody, nor for its like."""
    queue, _ = running
    assert queue.victims(1.0) == ()
    queue.enter(wait("sheddable", priority=-2, arrived=1.0), 1.0)
    assert list(queue.victims(1.0)) == []


def test_the_lowest_and_newest_ends(running, wait):
    """F20: the victim gets 429, and is told why."""
    queue, _ = running
    queue.enter(wait("critical", priority=1, arrived=1.0), 1.0)
    ((victim, why),) = queue.victims(1.0)
    assert victim.owner == "lowest"
    assert (why.reason, why.status) == ("evicted", 429)
    assert "evicted by flow control" in why.message
    queue.responded(victim)
    assert queue.victims(1.4) == []
    assert queue.wake_at(1.4) == 1.5
    ((victim, _),) = queue.victims(1.5)
    assert victim.owner == "newer"


def test_as_many_end_as_are_too_many_but_two_at_most(running, wait, room):
    """n = ceil((saturation - ceiling) / (saturation / in flight)), as long as they have not ended."""
    queue, sent = running
    room.saturated = 3.0
    queue.enter(wait("critical", priority=1, arrived=1.0), 1.0)
    first = [victim.owner for victim, _ in queue.victims(1.0)]
    assert first == ["lowest", "newer"]
    assert queue.victims(2.0) == [], "those two are still on their way out"
    for waiting in sent:
        if waiting.owner in first:
            queue.responded(waiting)
    assert [victim.owner for victim, _ in queue.victims(2.0)] == ["older"]


def test_an_eviction_that_has_no_effect_counts_no_more(running, wait):
    """After 10 s another is ended."""
    queue, _ = running
    queue.enter(wait("critical", priority=1, arrived=1.0, deadline=100.0), 1.0)
    assert len(queue.victims(1.0)) == 1
    assert queue.victims(10.9) == []
    assert len(queue.victims(11.0)) == 1


def test_whose_answer_has_begun_is_safe(running, wait):
    """Nobody's answer is cut off in the middle."""
    queue, sent = running
    for waiting in sent:
        queue.responded(waiting)
    queue.enter(wait("critical", priority=1, arrived=1.0), 1.0)
    assert list(queue.victims(1.0)) == []
