"""A request has one budget of time while the pool is saturated, and another while it has no endpoint."""

import math

import pytest

from headgate.flow.queue import FlowSettings


def dropped(queue, now):
    return [(waiting.owner, why.reason, why.status) for waiting, why in queue.dropped(now)]


def test_a_request_without_a_turn_is_told_so_in_time(queue_of, wait):
    """F8: with a time to live of 100 ms it ends after 100 ms, and the queue says when to look."""
    queue = queue_of()
    queue.enter(wait("late", deadline=0.1), 0.0)
    assert queue.wake_at(0.0) == 0.1
    assert dropped(queue, 0.0999) == []
    assert dropped(queue, 0.1) == [("late", "rejected-ttl-expired", 429)]
    assert queue.wake_at(0.1) == math.inf


def test_a_pool_without_endpoints_holds_requests(queue_of, wait, room, drain):
    """F9: an endpoint that appears within the budget serves them."""
    queue = queue_of(no_endpoint_ttl_s=5.0)
    room.no_endpoints = True
    assert not queue.passes(0, 0.0)
    assert queue.enter(wait("held"), 0.0) is None
    assert dropped(queue, 2.0) == []
    room.no_endpoints = False
    assert drain(queue, now=2.0) == ["held"]


def test_a_pool_that_stays_without_endpoints_is_unavailable(queue_of, wait, room):
    """F10: beyond the budget the answer is 503."""
    queue = queue_of(no_endpoint_ttl_s=5.0)
    room.no_endpoints = True
    queue.enter(wait("held"), 0.0)
    assert queue.wake_at(0.0) == 5.0
    assert dropped(queue, 5.0) == [("held", "rejected-no-endpoints", 503)]


def test_without_a_budget_it_is_unavailable_at_once(queue_of, wait, room):
    """0 holds nobody."""
    queue = queue_of(no_endpoint_ttl_s=0)
    room.no_endpoints = True
    refused = queue.enter(wait(), 0.0)
    assert (refused.reason, refused.status) == ("rejected-no-endpoints", 503)


def test_the_other_budget_begins_when_the_pool_changes(queue_of, wait, room):
    """Who waited for the first endpoint may wait for a turn like anybody who has just come, and back."""
    queue = queue_of(no_endpoint_ttl_s=5.0)
    room.no_endpoints = True
    queue.enter(wait("held", deadline=10.0), 0.0)
    room.no_endpoints = False
    assert dropped(queue, 4.0) == []
    assert queue.wake_at(4.0) == 14.0
    room.no_endpoints = True
    assert dropped(queue, 13.0) == []
    assert queue.wake_at(13.0) == 18.0
    assert dropped(queue, 18.0) == [("held", "rejected-no-endpoints", 503)]


def test_a_time_that_began_anew_outlives_other_settings(queue_of, wait, room):
    """Who waited long for an endpoint keeps its time for a turn, when settings change."""
    queue = queue_of(no_endpoint_ttl_s=5.0)
    room.no_endpoints = True
    queue.enter(wait("held", deadline=10.0), 0.0)
    room.no_endpoints = False
    assert dropped(queue, 4.0) == []
    queue.change(FlowSettings(no_endpoint_ttl_s=7.0), 5.0)
    assert queue.wake_at(5.0) == 14.0
    room.no_endpoints = True
    assert dropped(queue, 6.0) == []
    assert queue.wake_at(6.0) == 13.0


def test_a_clients_own_patience_does_not_begin_anew(queue_of, wait, room):
    """Its deadline stays where it is, whatever happens to the pool."""
    queue = queue_of(no_endpoint_ttl_s=5.0)
    queue.enter(wait("hurry", gives_up_at=3.0), 0.0)
    room.no_endpoints = True
    queue.dropped(1.0)
    assert queue.wake_at(1.0) == 3.0


def test_nobody_is_sent_after_the_end_of_its_time(queue_of, wait, drain):
    """Room that comes too late is for others."""
    queue = queue_of()
    queue.enter(wait("late", deadline=1.0), 0.0)
    queue.enter(wait("patient"), 0.0)
    assert drain(queue, now=2.0) == ["patient"]
    assert dropped(queue, 2.0) == [("late", "rejected-ttl-expired", 429)]


def test_nobody_is_next_where_all_came_to_their_end(queue_of, wait, room):
    """The question alone finds that out, too."""
    queue = queue_of()
    room.slots = 1
    queue.enter(wait("late", deadline=1.0), 0.0)
    assert queue.next(2.0) is None
    assert dropped(queue, 2.0) == [("late", "rejected-ttl-expired", 429)]


def test_a_client_that_hangs_up_frees_its_place(queue_of, wait, drain):
    """F11, R38: it is never sent, and counts no more."""
    queue = queue_of(max_requests=1)
    gone = wait("gone")
    queue.enter(gone, 0.0)
    queue.leave(gone, 0.0)
    assert queue.enter(wait("next"), 0.0) is None
    assert drain(queue) == ["next"]
    assert gone.state == "left"


def test_all_are_told_when_the_gateway_ends(queue_of, wait):
    """Those that wait, and those that come."""
    queue = queue_of()
    queue.enter(wait("waits"), 0.0)
    queue.close(1.0)
    assert dropped(queue, 1.0) == [("waits", "rejected-shutting-down", 503)]
    assert queue.enter(wait("comes"), 1.0).reason == "rejected-shutting-down"


def test_when_to_come_again_follows_from_how_fast_the_queue_drains(queue_of, wait, room):
    """10 requests of 1000 tokens a second, and 400 of them waiting: about 40 s, and less for a higher one."""
    queue = queue_of(max_requests=400)
    for number in range(400):
        queue.enter(wait(number, work=1000, priority=0, deadline=1e9), 0.0)
    for tick in range(1, 201):
        room.slots = 1
        queue.next(tick / 10)
        queue.enter(wait("more", work=1000, deadline=1e9), tick / 10)
    refused = queue.enter(wait("one more"), 20.0)
    assert 36 <= refused.retry_after_s <= 55
    assert queue.explain(20.0).drain_per_s == pytest.approx(10_000, rel=0.1)


def test_nobody_is_sent_away_for_ever(queue_of, wait, room):
    """Where nothing drains, it is 5 minutes; where nothing is known yet, a second."""
    queue = queue_of(max_requests=1)
    queue.enter(wait(deadline=1e9), 0.0)
    assert queue.enter(wait(), 0.0).retry_after_s == 1
    assert queue.enter(wait(), 1000.0).retry_after_s == 300


def test_whose_time_has_come_holds_no_place(queue_of, wait):
    """Though nobody has asked for the dropped yet: whoever comes then finds the place free."""
    queue = queue_of(max_requests=1)
    late, next_ = wait("late", deadline=1.0), wait("next", arrived=1.5)
    assert queue.enter(late, 0.0) is None
    assert queue.enter(wait("early", arrived=0.5), 0.5) is not None
    assert queue.enter(next_, 1.5) is None
    assert [(each, why.reason) for each, why in queue.dropped(1.5)] == [(late, "rejected-ttl-expired")]
    queue.validate()
