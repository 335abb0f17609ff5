"""Higher priorities go first, strictly or with a floor for the lower ones."""

import random

import pytest

from headgate import routing
from headgate.fleet import EndpointState
from headgate.flow.capacity import PredictedWork
from headgate.flow.queue import BandSettings, FlowQueue, FlowSettings, Waiting


def test_the_highest_goes_first_and_then_the_oldest():
    """Whoever comes first goes first within a priority; a higher priority goes before all of them."""
    capacity = PredictedWork()
    capacity.follow([EndpointState(routing.Endpoint("a", "127.0.0.1", 8000))])
    queue = FlowQueue(FlowSettings(), capacity, random.Random(1))
    for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 1)):
        waiting = Waiting(name, flow="", priority=priority, work=10, size=1, arrived=0.0)
        assert queue.enter(waiting, 0.0) is None
    assert [queue.next(0.0).owner for _ in range(4)] == ["high", "first", "second", "low"]
    assert queue.next(0.0) is None


def test_a_request_passes_where_nobody_is_before_it(queue_of, wait, room):
    """With room, a higher one passes those that wait below it, an equal or lower one does not."""
    queue = queue_of()
    assert not queue.passes(0, 0.0)
    queue.enter(wait("waits", priority=0), 0.0)
    room.slots = 2
    assert not queue.passes(-1, 0.0)
    assert not queue.passes(0, 0.0)
    assert queue.passes(1, 0.0)
    assert room.slots == 1


def test_lower_bands_starve_where_order_is_strict(queue_of, wait, room):
    """As long as a higher one has requests, nothing else goes."""
    queue = queue_of()
    queue.enter(wait("low", priority=-1), 0.0)
    for number in range(50):
        queue.enter(wait(number, priority=1), 0.0)
    room.slots = 50
    assert [queue.next(0.0).owner for _ in range(50)] == list(range(50))


@pytest.mark.parametrize("floor", [0.1, 0.25])
def test_a_floor_is_a_share_of_the_work(queue_of, wait, drain, floor):
    """Each band that has requests waiting gets at least that share, whatever the size of its requests."""
    queue = queue_of(floor_share=floor)
    for _ in range(1000):
        queue.enter(wait(1, priority=1, work=300, deadline=1e9), 0.0)
        queue.enter(wait(0, priority=0, work=100, deadline=1e9), 0.0)
        queue.enter(wait(-1, priority=-1, work=500, deadline=1e9), 0.0)
    went = drain(queue, 600)
    work = {1: 300 * went.count(1), 0: 100 * went.count(0), -1: 500 * went.count(-1)}
    total = sum(work.values())
    assert work[0] / total == pytest.approx(floor, abs=0.01)
    assert work[-1] / total == pytest.approx(floor, abs=0.01)


def test_floors_leave_the_highest_its_share(queue_of, wait, drain):
    """Where floors of all bands together are more than there is, each band has an equal part."""
    queue = queue_of(floor_share=0.5)
    for _ in range(100):
        for priority in (1, 0, -1):
            queue.enter(wait(priority, priority=priority), 0.0)
    went = drain(queue, 90)
    assert [went.count(priority) for priority in (1, 0, -1)] == pytest.approx([30, 30, 30], abs=2)


def test_who_has_waited_too_long_moves_up(queue_of, wait, drain):
    """The oldest of all goes first once it is old enough, whatever its priority."""
    queue = queue_of(promote_after_s=10.0)
    queue.enter(wait("old", priority=-1), 0.0)
    queue.enter(wait("young", priority=-1, arrived=5.0), 5.0)
    queue.enter(wait("high", priority=1, arrived=9.0), 9.0)
    assert not queue.passes(1, 9.0)
    assert drain(queue, 1, now=9.0) == ["high"]
    queue.enter(wait("high again", priority=1, arrived=10.0), 10.0)
    assert drain(queue, now=10.0) == ["old", "high again", "young"]


def test_a_priority_without_a_band_waits_in_the_next_lower_one(queue_of, wait, drain):
    """Nobody is promoted: a negative one that nobody knows does not become default."""
    bands = {1: BandSettings(), 0: BandSettings(), -10: BandSettings()}
    queue = queue_of(bands=bands, only_bands=True)
    for priority in (-3, -10, 5, 1, -99):
        queue.enter(wait(priority, priority=priority), 0.0)
    assert [row.priority for row in queue.explain(0.0).bands] == [1, 0, -10, -11]
    assert drain(queue) == [5, 1, -3, -10, -99]


def test_bands_are_bounded_in_number(queue_of, wait, drain):
    """However many priorities there are, those that are too many wait with lower ones."""
    queue = queue_of()
    for priority in range(200):
        queue.enter(wait(priority, priority=priority), 0.0)
    assert len(queue.explain(0.0).bands) == 64
    assert len(drain(queue)) == 200


def test_a_queue_that_is_off_refuses_the_sheddable_alone(queue_of, wait, room):
    """F1, F2: nobody waits; what is sheddable is refused while the pool is saturated, all else goes."""
    queue = queue_of(is_on=False)
    assert queue.passes(0, 0.0)
    assert not queue.passes(-1, 0.0)
    refused = queue.enter(wait(priority=-1), 0.0)
    assert (refused.status, refused.reason) == (429, "rejected-saturated")
    assert refused.message == "system saturated, sheddable request dropped"
    room.slots = 1
    assert queue.passes(-1, 0.0)


def test_a_queue_that_is_off_does_not_hold_the_sheddable_for_an_endpoint(queue_of, wait, room):
    """It is told what all others are told: nobody is there."""
    queue = queue_of(is_on=False)
    room.no_endpoints = True
    refused = queue.enter(wait(priority=-1), 0.0)
    assert (refused.status, refused.reason) == (503, "rejected-no-endpoints")


def test_a_queue_that_is_turned_off_lets_all_go(queue_of, wait, room):
    """Those that wait, whether there is room or not, and those that come meanwhile."""
    queue = queue_of()
    queue.enter(wait("waits"), 0.0)
    queue.enter(wait("waits too"), 0.0)
    queue.change(FlowSettings(is_on=False), 1.0)
    assert queue.passes(0, 1.0)
    assert [queue.next(1.0).owner for _ in range(2)] == ["waits", "waits too"]
    assert queue.next(1.0) is None


def test_settings_change_while_requests_wait(queue_of, wait, drain):
    """Who waits keeps its place, and the new order holds for all of them."""
    queue = queue_of()
    for owner, slo_at in (("a", 9.0), ("b", 1.0)):
        queue.enter(wait(owner, slo_at=slo_at), 0.0)
    queue.change(FlowSettings(band=BandSettings(ordering="slo-deadline-ordering-policy")), 1.0)
    queue.validate()
    assert drain(queue, now=1.0) == ["b", "a"]


def test_it_is_told_who_waits_and_why(queue_of, wait, room):
    """Bands, flows with their deficits, and what keeps the first of each band."""
    queue = queue_of(weights={"gold": 2.0})
    for owner, flow, priority in ((1, "gold", 1), (2, "gold", 1), (3, "iron", 0)):
        queue.enter(wait(owner, flow=flow, priority=priority, work=1500), 0.0)
    view = queue.explain(2.0)
    high, low = view.bands
    assert (view.requests, view.work, view.saturation) == (3, 4500, 1.0)
    assert (high.priority, high.requests, high.oldest_s, high.has_room) == (1, 2, 2.0, False)
    assert (high.flows[0].name, high.flows[0].weight, high.flows[0].requests) == ("gold", 2.0, 2)
    assert high.flows[0].standing == "deficit 0 tokens, due in 1 round"
    assert low.flows[0].standing == "deficit 0 tokens, due in 2 rounds"
    assert [row.why for row in high.first] == [
        "the pool has no capacity: its saturation is 1.00",
        "others of its band are ahead of it",
    ]
    room.slots = 1
    assert [band.first[0].why for band in queue.explain(2.0).bands] == [
        "it is next",
        "requests of priority 1 go first",
    ]
    room.no_endpoints = True
    assert queue.explain(2.0).bands[0].first[0].why == "the pool has no endpoint"
