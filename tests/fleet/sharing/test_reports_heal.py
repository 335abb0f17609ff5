"""Whatever happens to reports on their way, the next whole one ends in the state that was reported."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet import sharing
from headgate.fleet.prefix import PrefixIndex

ENDPOINTS = [routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place) for place in range(3)]


class Sender:
    """A member with requests of its own."""

    def __init__(self):
        self.ledger, self.index = fleet.Ledger(), PrefixIndex()
        self.index.journal = sharing.Journal()
        self.reporter = sharing.Reporter(self.ledger, self.index.journal)
        self.open = []

    def step(self, what, place, now):
        """Send a request, or let the oldest one get its first token, or end it."""
        if what == "book" or not self.open:
            load = self.ledger.load(ENDPOINTS[place])
            self.open.append(load.book(1000 + place, 50, now, place != 2))
        elif what == "first" and not self.open[0].is_prefilled:
            self.open[0].first_token(now)
        else:
            self.open.pop(0).end(now)


def figures(load):
    """What a ledger says of an endpoint."""
    return (
        load.requests,
        load.decoding,
        load.prefill_tokens,
        load.unseen_tokens,
        load.output_tokens,
        load.estimator.decoding.count,
    )


def receiver():
    ledger = fleet.Ledger()
    for endpoint in ENDPOINTS:
        ledger.load(endpoint)
    return ledger, sharing.Members(ledger, PrefixIndex())


steps = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["book", "first", "end"]), st.integers(0, 2)), max_size=40
)


@given(steps=steps, data=st.data())
def test_any_loss_repetition_and_order_end_in_the_same_state(steps, data):
    """After lost, repeated and reordered reports, one whole report of each member makes the sums exact."""
    senders, sent, now = [Sender(), Sender()], [], 0.0
    for who, what, place in steps:
        now += 0.01
        senders[who].step(what, place, now)
        report = senders[who].reporter.changes(now)
        if report is not None:
            sent.append((who, sharing.decode(sharing.encode(report))))
    arrived = data.draw(st.lists(st.sampled_from(sent), max_size=60)) if sent else []
    ledger, members = receiver()
    for who, report in arrived:
        members.hear(who, report, now)
        ledger.validate()
    for who, sender in enumerate(senders):
        members.hear(who, sender.reporter.whole(now), now)
    for endpoint in ENDPOINTS:
        both = [figures(sender.ledger.load(endpoint)) for sender in senders]
        assert figures(ledger.load(endpoint)) == tuple(map(sum, zip(*both, strict=True)))
    for who, report in arrived:  # older than the whole ones: without effect
        members.hear(who, report, now)
    for endpoint in ENDPOINTS:
        both = [figures(sender.ledger.load(endpoint)) for sender in senders]
        assert figures(ledger.load(endpoint)) == tuple(map(sum, zip(*both, strict=True)))


@given(steps=steps)
def test_accounts_return_to_zero(steps):
    """When all requests of the others have ended, nothing of them is left."""
    sender, now = Sender(), 0.0
    ledger, members = receiver()
    for _, what, place in steps:
        now += 0.1
        sender.step(what, place, now)
        if (report := sender.reporter.changes(now)) is not None:
            members.hear("a", report, now)
        for endpoint in ENDPOINTS:
            assert figures(ledger.load(endpoint)) == figures(sender.ledger.load(endpoint))
    for booking in sender.open:
        booking.end(now)
    if (report := sender.reporter.changes(now)) is not None:
        members.hear("a", report, now)
    for load in ledger.loads():
        assert figures(load) == (0, 0, 0, 0, 0, 0)
        assert load.estimator.queue_s(now + 1e-6) == 0.0


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_silent_member_is_forgotten(is_forgotten):
    """A member that was not heard for 2 s, or whose connection ended, has no requests any more."""
    sender = Sender()
    sender.step("book", 0, 0.0)
    ledger, members = receiver()
    members.hear("a", sender.reporter.whole(0.0), 10.0)
    load = ledger.load(ENDPOINTS[0])
    assert load.requests == 1
    assert load.estimator.queue_s(10.0) > 0.0
    if is_forgotten:
        members.forget("a", 11.0)
    else:
        members.expire(10.0 + sharing.SILENT_S - 0.01)
        assert load.requests == 1
        members.expire(10.0 + sharing.SILENT_S)
    assert figures(load) == (0, 0, 0, 0, 0, 0)
    assert members.statistics() == {"members": 0, "loads": 0, "ignored": 0}
    ledger.validate()


def test_own_requests_stay_apart():
    """A member reports its own requests only, however many others report theirs, and keeps its endpoints for
    those only."""
    first, second = Sender(), Sender()
    for sender in (first, second):
        sender.step("book", 0, 0.0)
    members = sharing.Members(first.ledger, first.index)
    members.hear("second", second.reporter.whole(0.1), 0.1)
    load = first.ledger.load(ENDPOINTS[0])
    assert (load.requests, load.own_requests) == (2, 1)
    (reported,) = first.reporter.whole(0.1).loads
    assert (reported.requests, reported.prefill_tokens) == (1, 1000)
    first.open.pop().end(0.2)
    assert (load.requests, load.own_requests) == (1, 0)
    first.ledger.validate()
    assert first.ledger.keep([]) == [load]


def test_an_endpoint_that_becomes_known_gets_its_load():
    """Reports may name endpoints that are not in this member's snapshot yet."""
    sender = Sender()
    sender.step("book", 0, 0.0)
    ledger = fleet.Ledger()
    members = sharing.Members(ledger, PrefixIndex())
    members.hear("a", sender.reporter.whole(0.0), 0.0)
    assert not ledger.loads()
    load = ledger.load(ENDPOINTS[0])
    members.refresh(0.1)
    assert load.requests == 1


def test_reports_are_few_when_nothing_changes():
    """Between whole reports, which come twice a second, an unchanged ledger has nothing to report."""
    sender = Sender()
    sender.step("book", 0, 0.0)
    reports = [sender.reporter.changes(tick * 0.02) for tick in range(100)]
    assert sum(report is not None for report in reports) == 4
    assert all(report is None or report.is_whole for report in reports)
    numbers = [report.number for report in reports if report is not None]
    assert all(later > earlier for earlier, later in itertools.pairwise(numbers))
