"""Several gateways that share what they know order their queued requests as one would, in virtual time."""

from statistics import fmean

from headgate.fleet.prefix import PrefixIndex
from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings
from headgate.scheduling import LeastWork
from headgate.simulator.fleet.members import Member, run_members
from headgate.simulator.fleet.sharing import Sharing

EIGHT = CapacitySettings(detector="concurrency-detector", max_requests=4)
"""Requests at a time, on two engines."""


def run(requests, fleet, member_of, *, gateways=2):
    """`member_of` says to which gateway a request comes."""
    members = [Member(LeastWork(), PrefixIndex()) for _ in range(gateways)]
    return run_members(
        sorted(requests, key=lambda each: each.at_s),
        fleet,
        members,
        seed=1,
        sharing=Sharing(),
        member_of=lambda _, timed: member_of(timed) % gateways,
    )


def of_two_priorities(timed):
    """As many of each; together more than the fleet can serve at that time."""
    return [timed(at * 1.2, priority=priority) for at in range(50) for priority in (0, 1)]


def queued_s(records, priority):
    return fmean(each.queued_s for each in records if each.priority == priority)


def test_priorities_hold(fleet_of, timed):
    """Requests of a high priority at one gateway go before those of a low priority at another, nearly as
    behind one gateway; and the fleet serves nearly as much."""
    fleet = fleet_of(2, flow=FlowSettings(ttl_s=0), capacity=EIGHT)
    one, two = (
        run(of_two_priorities(timed), fleet, lambda each: each.priority, gateways=count) for count in (1, 2)
    )
    assert {each.outcome for each in (*one, *two)} == {"served"}
    assert queued_s(two, 1) < queued_s(two, 0) / 4
    assert queued_s(two, 1) < queued_s(one, 1) + 4.0
    mean_one, mean_two = (fmean(each.ended_s for each in records) for records in (one, two))
    assert mean_two <= mean_one * 1.05  # a hundredth of a second may cost a step, which takes 1.3 s here


def test_flows_share_across_gateways(fleet_of, timed):
    """A flow that comes later, to another gateway, gets as much as the one that has all endpoints busy."""
    requests = [timed(at * 0.1, tenant="a") for at in range(100)]
    requests += [timed(10.0 + at * 0.1, tenant="b") for at in range(100)]
    fleet = fleet_of(2, flow=FlowSettings(ttl_s=0), capacity=EIGHT)
    records = run(requests, fleet, lambda each: each.tenant == "b")
    ended = [each.tenant for each in records if 25.0 < each.ended_s < 90.0]
    a, b = ended.count("a"), ended.count("b")
    assert abs(a - b) <= 0.15 * (a + b)


def test_limits_hold_for_both_together(fleet_of, timed):
    """As many requests are queued as the setting says, but for those that come between two reports."""
    most = 40
    requests = [timed(1.0 + at * 0.05, tenant=each) for at in range(200) for each in "ab"]
    fleet = fleet_of(2, flow=FlowSettings(ttl_s=0, max_requests=most), capacity=EIGHT)
    records = run(requests, fleet, lambda each: each.tenant == "b")
    waits = [(each.arrived_s, each.arrived_s + each.queued_s) for each in records if each.outcome == "served"]
    longest = max(sum(begin <= at < end for begin, end in waits) for at in (3.0, 5.0, 7.0, 9.0, 10.5))
    assert 0.9 * most <= longest <= 1.2 * most
