"""A queue before a pool that requests start: what may wait, for how long, and when to come back."""

import math
import random

import pytest
from flow_pools import Room

from headgate.flow.queue import Bounds, FlowQueue, FlowSettings
from headgate.routing import Start

START = Start(60.0)


@pytest.fixture
def cold(queue_of, room):
    """Makes queues before a pool at zero, by the fields of their settings and its start."""

    def make(start=START, **settings):
        room.no_endpoints = True
        queue = queue_of(**settings)
        queue.use_start(start, 0.0)
        return queue

    return make


@pytest.mark.parametrize("is_on", [True, False])
def test_requests_go_when_there_is_an_endpoint_with_capacity(cold, room, wait, drain, is_on):
    """Even if flow control is off; then it is off again as soon as nobody waits any more."""
    queue = cold(is_on=is_on, no_endpoint_ttl_s=0.0)
    for name in "abc":
        assert not queue.passes(0, 0.0)
        assert queue.enter(wait(name), 0.0) is None
    assert drain(queue, 3) == []
    room.no_endpoints = False
    assert drain(queue, 2, now=60.0) == ["a", "b"]
    assert not queue.passes(0, 60.0), "it would overtake the one that waits"
    assert drain(queue, 1, now=61.0) == ["c"]
    assert queue.passes(0, 61.0) is not is_on


def test_the_rest_of_the_start_is_when_to_come_back(cold, wait):
    """It begins with the first request; one that is late is expected to take a tenth more."""
    queue = cold(start_max_requests=1)
    told = []
    for at in (0.0, 10.0, 59.0, 200.0):
        dropped = queue.enter(wait(at, arrived=at), at)
        told.append(dropped and dropped.retry_after_s)
        assert queue.starts_in_s(at) == max(60.0 - at, 6.0)
    assert told == [None, 50, 6, 6]


def test_a_start_for_which_nobody_waits_any_more_is_over(cold, wait):
    """The next request begins another, if none has come for as long as a start takes."""
    queue = cold()
    waits = wait("gone")
    queue.enter(waits, 0.0)
    queue.leave(waits, 30.0)
    queue.enter(patient := wait("soon", arrived=50.0), 50.0)
    assert queue.starts_in_s(50.0) == 10.0
    queue.leave(patient, 55.0)
    queue.enter(wait("late", arrived=120.0), 120.0)
    assert queue.starts_in_s(120.0) == 60.0


def test_the_first_endpoint_ends_the_start(cold, room, wait, drain):
    """When the pool is at zero again, another begins."""
    queue = cold()
    queue.enter(wait("first"), 0.0)
    room.no_endpoints = False
    assert drain(queue, 1, now=45.0) == ["first"]
    assert queue.starts_in_s(45.0) is None
    room.no_endpoints = True
    queue.enter(wait("second", arrived=50.0), 50.0)
    assert queue.starts_in_s(50.0) == 60.0


@pytest.mark.parametrize(("patience_s", "is_held"), [(59.0, False), (60.0, True), (math.inf, True)])
def test_a_request_waits_only_for_a_start_that_is_in_time(cold, wait, patience_s, is_held):
    """Its client says how long it waits."""
    dropped = cold().enter(wait("a", gives_up_at=patience_s), 0.0)
    assert (dropped is None) == is_held
    if dropped is not None:
        assert (dropped.status, dropped.reason, dropped.retry_after_s) == (503, "rejected-no-endpoints", 60)
        assert "is expected to take 60 s; the request may wait for 59 s" in dropped.message


def test_time_is_bounded_however_late_the_start_is(cold, wait):
    """The bound is its own; that for other pools is shorter."""
    queue = cold(start_ttl_s=300.0, no_endpoint_ttl_s=30.0)
    queue.enter(wait("a"), 0.0)
    assert queue.wake_at(0.0) == 300.0
    assert queue.dropped(299.9) == ()
    ((waiting, dropped),) = queue.dropped(300.0)
    assert (waiting.owner, dropped.status) == ("a", 503)
    assert "no endpoint was ready within 300 s" in dropped.message


def test_a_failure_ends_all_waits(cold, wait):
    """And a new attempt to start lets requests wait again."""
    queue = cold()
    queue.enter(wait("a"), 0.0)
    queue.use_start(Start(60.0, "no GPU is free"), 10.0)
    ((_, dropped),) = queue.dropped(10.0)
    late = queue.enter(wait("b", arrived=11.0), 11.0)
    assert dropped.message == late.message == "it could not be started: no GPU is free"
    assert dropped.retry_after_s == late.retry_after_s == 60
    queue.use_start(START, 20.0)
    assert queue.enter(wait("c", arrived=20.0), 20.0) is None


def test_the_important_take_the_places_of_others(cold, wait):
    """As in any full queue."""
    queue = cold(start_max_requests=2)
    for name in "ab":
        queue.enter(wait(name, priority=0), 0.0)
    assert queue.enter(wait("c", priority=1), 0.0) is None
    ((waiting, dropped),) = queue.dropped(0.0)
    assert (waiting.owner, dropped.reason) == ("b", "evicted-priority")


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"start_max_requests": 8}, 2),
        ({"start_max_requests": 8, "max_requests": 4}, 1),
        ({"start_max_requests": 0, "max_requests": 12}, 3),
        ({"start_max_requests": 0, "max_requests": 0, "start_max_bytes": 400}, 10),
    ],
)
def test_workers_divide_the_places(wait, settings, most):
    """Each of four has an equal part of the lower bound; 0 is none."""
    settings = FlowSettings(**{"start_max_bytes": 0, "max_bytes": 0} | settings)
    room = Room()
    room.no_endpoints = True
    queue = FlowQueue(settings, room, random.Random(1), Bounds(settings, 4, 3))
    queue.use_start(START, 0.0)
    entered = [queue.enter(wait(place), 0.0) is None for place in range(12)]
    assert sum(entered) == most
