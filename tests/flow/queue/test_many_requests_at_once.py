"""Thousands of requests are released in no time, and nothing is lost among those that come and go."""

import random
import sys

import pytest

from headgate.flow.queue import FAIRNESS, BandSettings
from headgate.flow.queue.queue import EXPIRED_AT_ONCE, MIN_WAIT_S


def calls(action):
    """How many functions of Python `action` calls: a measure of its cost that is the same on any machine."""
    count = 0

    def counted(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("flows", [50, 5000])
@pytest.mark.parametrize("fairness", [each for each in FAIRNESS if each != "program-aware-fairness"])
def test_five_thousand_waiting_requests_are_released_at_once(queue_of, wait, room, flows, fairness):
    """F22: as soon as there is room, one after the other, each for the same few calls however many flows."""
    queue = queue_of(band=BandSettings(fairness=fairness))
    for number in range(5000):
        queue.enter(wait(number, flow=str(number % flows), work=number), 0.0)
    room.slots = 5000
    released = []

    def release():
        while (waiting := queue.next(1.0)) is not None:
            released.append(waiting.owner)

    assert calls(release) / 5000 <= 30
    assert sorted(released) == list(range(5000))
    queue.validate()


def test_a_thousand_programs_are_not_all_looked_at_for_each_request(queue_of, wait, room):
    """Their scores depend on all of them; where they are many, they are ranked now and then."""
    queue = queue_of(band=BandSettings(fairness="program-aware-fairness"))
    for number in range(2000):
        queue.enter(wait(number, flow=str(number % 1000)), 0.0)
    room.slots = 2000

    def release():
        while queue.next(1.0) is not None:
            pass

    assert calls(release) / 2000 <= 200
    assert len(queue) == 0


def test_a_request_enters_for_the_same_cost_however_many_wait(queue_of, wait):
    """The last of 5000 costs what the first did."""
    queue = queue_of()
    first = calls(lambda: queue.enter(wait(0, flow="0"), 0.0))
    for number in range(1, 4999):
        queue.enter(wait(number, flow=str(number)), 0.0)
    assert calls(lambda: queue.enter(wait(1, flow="last"), 0.0)) <= first + 5


def test_a_full_queue_refuses_for_the_same_cost_however_many_wait(queue_of, wait):
    """Whoever storms a full queue does not make the gateway look through it."""
    queue = queue_of()
    for number in range(5000):
        queue.enter(wait(number, flow=str(number)), 0.0)
    assert calls(lambda: queue.enter(wait(1, flow="last"), 0.0)) <= 60
    assert len(queue) == 5000


def test_a_thousand_come_while_clients_hang_up(queue_of, wait, room):
    """F17: each of them ends exactly once, and all counters are back at nothing."""
    chance = random.Random(7)
    queue = queue_of(max_requests=200)
    ends = {}
    waiting = []

    def end(each, how):
        assert each not in ends
        ends[each] = how

    for number in range(1000):
        now = number / 100
        each = wait(number, flow=str(number % 7), priority=number % 3 - 1, arrived=now, deadline=now + 4.0)
        refused = queue.enter(each, now)
        if refused is not None:
            end(each, refused.reason)
        else:
            waiting.append(each)
        if chance.random() < 0.3:
            leaves = chance.choice(waiting)
            if leaves.state == "queued":
                end(leaves, "left")
            queue.leave(leaves, now)
        if chance.random() < 0.2:
            room.slots = 2
            while (sent := queue.next(now)) is not None:
                end(sent, "sent")
        for dropped, why in queue.dropped(now):
            end(dropped, why.reason)
    room.slots = 10**6
    while (sent := queue.next(10.0)) is not None:
        end(sent, "sent")
    for dropped, why in queue.dropped(10.0):
        end(dropped, why.reason)
    assert len(ends) == 1000
    assert {"sent", "left", "rejected-ttl-expired", "evicted-queue-pressure"} <= set(ends.values())
    statistics = queue.statistics()
    assert statistics["requests"] == statistics["bytes"] == statistics["work"] == 0
    queue.validate()


def test_requests_that_are_gone_take_no_room(queue_of, wait):
    """Clients that come and hang up for hours leave nothing behind while one request waits."""
    queue = queue_of()
    queue.enter(wait("patient", flow="a", deadline=1e9), 0.0)
    for number in range(3000):
        each = wait(number, flow="a", deadline=1e6 + number)
        queue.enter(each, 0.0)
        queue.leave(each, 0.0)
    assert len(queue) == 1
    held = queue._bands.of(0).flows["a"]._line
    assert len(held) < 200
    assert len(queue._expiry._ends) < 200


def test_requests_whose_time_is_over_leave_in_slices(queue_of, wait, room):
    """Thousands may have the same end: others have their turns in between, and none goes meanwhile."""
    queue = queue_of()
    for number in range(5 * EXPIRED_AT_ONCE):
        queue.enter(wait(number, deadline=1.0), 0.0)
    room.slots = 5 * EXPIRED_AT_ONCE
    told = []
    while queue.wake_at(1.0) <= 1.0 + MIN_WAIT_S:
        slice_ = [waiting.owner for waiting, _ in queue.dropped(1.0)]
        assert len(slice_) <= EXPIRED_AT_ONCE
        told += slice_
        assert queue.next(1.0) is None
        queue.validate()
    assert told == list(range(5 * EXPIRED_AT_ONCE))
