"""Where a queue is full, the least important requests give way; of equal ones, those of the longest flow."""

import pytest

from headgate.flow.queue import BandSettings


def reasons(queue, now=0.0):
    return [(waiting.owner, why.reason, why.status) for waiting, why in queue.dropped(now)]


def test_the_newest_sheddable_request_goes_first(queue_of, wait, drain):
    """A more important one takes its place, whatever else waits."""
    queue = queue_of(max_requests=3)
    for owner, priority in (("shed 1", -1), ("default", 0), ("shed 2", -1)):
        assert queue.enter(wait(owner, priority=priority), 0.0) is None
    assert queue.enter(wait("critical", priority=1), 0.0) is None
    assert reasons(queue) == [("shed 2", "evicted-queue-pressure", 429)]
    assert drain(queue) == ["critical", "default", "shed 1"]


def test_default_requests_go_only_if_nothing_sheddable_is_left(queue_of, wait):
    """And critical ones for none but those that are more important still."""
    queue = queue_of(max_requests=2)
    queue.enter(wait("shed", priority=-1), 0.0)
    queue.enter(wait("default", priority=0), 0.0)
    queue.enter(wait("critical 1", priority=1), 0.0)
    queue.enter(wait("critical 2", priority=1), 0.0)
    assert reasons(queue) == [
        ("shed", "evicted-queue-pressure", 429),
        ("default", "evicted-priority", 429),
    ]
    refused = queue.enter(wait("critical 3", priority=1), 0.0)
    assert (refused.reason, refused.status) == ("rejected-saturated", 429)
    assert "2 requests, none of them less important" in refused.message


def test_the_lowest_band_gives_way_before_others(queue_of, wait):
    """Of several sheddable bands, the lowest one."""
    queue = queue_of(max_requests=2)
    queue.enter(wait("lowest", priority=-5), 0.0)
    queue.enter(wait("low", priority=-1), 0.0)
    queue.enter(wait("default", priority=0), 0.0)
    assert reasons(queue) == [("lowest", "evicted-queue-pressure", 429)]


def test_a_large_request_takes_as_many_places_as_it_needs(queue_of, wait, drain):
    """Bytes are bounded as well: several small ones go for a large one, and none where that would not do."""
    queue = queue_of(max_bytes=100)
    for number in range(8):
        queue.enter(wait(number, priority=-1, size=10), 0.0)
    assert queue.enter(wait("huge", priority=1, size=101), 0.0).reason == "rejected-saturated"
    assert reasons(queue) == []
    assert queue.enter(wait("large", priority=1, size=45), 0.0) is None
    assert [owner for owner, *_ in reasons(queue)] == [7, 6, 5]
    assert drain(queue) == ["large", 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"max_bytes": 15}, "15 bytes, none"),
        ({"max_requests": 1}, "1 requests, none"),
        ({"band": BandSettings(max_bytes=15)}, "15 bytes of priority 0"),
        ({"band": BandSettings(max_requests=1)}, "1 requests of priority 0"),
        ({"max_bytes": 15, "max_requests": 1, "band": BandSettings(max_requests=1)}, "15 bytes, none"),
    ],
)
def test_the_bound_that_is_met_is_named(queue_of, wait, bounds, says):
    """The total before the band, bytes before requests."""
    queue = queue_of(**bounds)
    queue.enter(wait(1), 0.0)
    refused = queue.enter(wait(2), 0.0)
    assert refused.reason == "rejected-saturated"
    assert says in refused.message


def test_no_bound_is_no_bound(queue_of, wait):
    """0 lets any number wait."""
    queue = queue_of(max_requests=0, max_bytes=0, band=BandSettings(max_requests=0, max_bytes=0))
    for number in range(6000):
        assert queue.enter(wait(number, size=10**9), 0.0) is None


def test_a_flow_that_fills_the_queue_does_not_keep_others_out(queue_of, wait, drain):
    """Of equally important requests, the newest of the flow with the most waiting makes room."""
    queue = queue_of(band=BandSettings(max_requests=6))
    for number in range(6):
        queue.enter(wait(f"noisy {number}", flow="noisy"), 0.0)
    assert queue.enter(wait("quiet 1", flow="quiet"), 0.0) is None
    assert queue.enter(wait("quiet 2", flow="quiet"), 0.0) is None
    assert [owner for owner, *_ in reasons(queue)] == ["noisy 5", "noisy 4"]
    assert queue.enter(wait("noisy 6", flow="noisy"), 0.0).reason == "rejected-saturated"
    assert queue.enter(wait("quiet 3", flow="quiet"), 0.0) is None
    assert queue.enter(wait("quiet 4", flow="quiet"), 0.0).reason == "rejected-saturated"
    assert len(drain(queue)) == 6


def test_tenants_are_not_looked_at_where_order_alone_counts(queue_of, wait):
    """Under the strict policy whoever comes last is refused."""
    band = BandSettings(max_requests=2, fairness="global-strict-fairness-policy")
    queue = queue_of(band=band)
    queue.enter(wait(1, flow="noisy"), 0.0)
    queue.enter(wait(2, flow="noisy"), 0.0)
    assert queue.enter(wait(3, flow="quiet"), 0.0).reason == "rejected-saturated"
