"""Reports of queues come from the network, and shares are computed from them without a hub."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.sharing import Backlog, Charge, Exchange, Part, PoolReport, Waits
from headgate.requests.queueing import peer_shares

POOL = "InferencePool/default/pool"


def report(queued=0, came=0, priority=0, most=100, flow="a"):
    waits = Waits(requests=queued, bytes=queued, came=came, max_requests=most, max_bytes=-1)
    backlog = [Backlog(priority=priority, flow=flow, weight=1.0, work=queued)] if queued else []
    return PoolReport(all=waits, bands={priority: waits}, backlog=backlog)


def test_parts_add_up_to_the_limit():
    """Each process computes its own part from the same reports; a process without a report has one too."""
    reports = {"a": report(30, 10), "b": report(10, 30), "c": PoolReport()}
    parts = []
    for own in reports:
        exchange = Exchange()
        for other, told in reports.items():
            if other != own:
                exchange.hear(other, {} if other == "c" else {POOL: told})
        mine = reports[own] if own != "c" else report()
        share = exchange.share(POOL, mine)
        assert share.bands[0] == share.all
        parts.append(share.all)
    assert sum(part.requests for part in parts) == 100
    assert all(part.bytes == -1 for part in parts)


def test_a_process_alone_has_all():
    """Before others come, and after they have gone."""
    exchange = Exchange()
    assert exchange.share(POOL, report(5)).all == Part(100, -1)
    exchange.hear("b", {POOL: report(50, priority=3)})
    share = exchange.share(POOL, report(5))
    assert (share.waiting_elsewhere, share.processes) == (3, 2)
    assert share.all.requests < 100
    exchange.forget("b")
    share = exchange.share(POOL, report(5))
    assert (share.waiting_elsewhere, share.processes, share.all) == (None, 1, Part(100, -1))


def test_what_flows_got_elsewhere_is_charged_once():
    """In the next share, whoever reported it."""
    exchange = Exchange()
    charge = Charge(priority=0, flow="a", sent=7)
    for who in ("b", "c"):
        exchange.hear(who, {POOL: msgspec.structs.replace(report(1), charges=[charge])})
    assert [each.sent for each in exchange.share(POOL, report()).charges] == [14]
    assert exchange.share(POOL, report()).charges == ()


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data):
    """Bytes that are no report raise ValueError, and nothing else."""
    try:
        peer_shares.decode(data)
    except ValueError as error:
        assert "report" in str(error)


@pytest.mark.parametrize(
    "wrong",
    [
        {POOL: msgspec.structs.replace(report(1), backlog=[Backlog(priority=0, flow="a", weight=w, work=1)])}
        for w in (0.0, -1.0, float("nan"), float("inf"))
    ]
    + [
        {POOL: msgspec.structs.replace(report(1), bands={at: Waits() for at in range(100)})},
        {str(at): PoolReport() for at in range(peer_shares.MAX_POOLS + 1)},
        {POOL: msgspec.structs.replace(report(1), all=Waits(requests=-5))},
        {POOL: msgspec.structs.replace(report(1), all=Waits(max_requests=-2))},
        {POOL: msgspec.structs.replace(report(1), bands={0: Waits(bytes=-1)})},
        {
            POOL: msgspec.structs.replace(
                report(1), backlog=[Backlog(priority=0, flow="a", weight=1.0, work=-1)]
            )
        },
    ],
)
def test_impossible_reports_are_refused(wrong):
    """Weights, counts and sizes have bounds."""
    with pytest.raises(ValueError, match="report"):
        peer_shares.decode(msgspec.msgpack.encode(wrong))
