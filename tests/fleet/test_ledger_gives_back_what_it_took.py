"""The in-flight ledger balances, whatever order requests and endpoints come and go in."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from headgate import fleet, routing
from headgate.fleet.ledger import DECODE_WORK_TOKENS


def endpoint(place: int) -> routing.Endpoint:
    return routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place)


class LedgerMachine(RuleBasedStateMachine):
    """Books requests on endpoints that a changing snapshot names."""

    booked = Bundle("booked")

    def __init__(self):
        super().__init__()
        self.ledger = fleet.Ledger()
        self.open = []

    @rule(target=booked, place=st.integers(0, 3), tokens=st.integers(0, 10_000))
    def start(self, place, tokens):
        load = self.ledger.load(endpoint(place))
        self.open.append(load.book(tokens, 2 * tokens, 0.0))
        return self.open[-1]

    @rule(request=booked)
    def first_token(self, request):
        if request in self.open and not request.is_prefilled:
            request.first_token(1.0)

    @rule(request=consumes(booked))
    def finish(self, request):
        request.end(2.0)
        self.open.remove(request)

    @rule(places=st.sets(st.integers(0, 3)))
    def keep(self, places):
        closed = self.ledger.keep([endpoint(place) for place in places])
        assert all(load.endpoint not in {endpoint(place) for place in places} for load in closed)
        assert all(load.requests == 0 for load in closed)
        kept = [load for load in self.ledger.loads() if load.endpoint not in {endpoint(p) for p in places}]
        assert all(load.requests > 0 for load in kept)

    @invariant()
    def the_sums_are_those_of_the_open_requests(self):
        self.ledger.validate()
        known = self.ledger.loads()
        counted = [each for each in self.open if each.load in known]
        owed = [0 if each.is_prefilled else each.uncached_tokens for each in counted]
        assert self.ledger.statistics() == {
            "endpoints": len(known),
            "requests": len(counted),
            "work_tokens": sum(tokens + DECODE_WORK_TOKENS for tokens in owed),
        }
        assert sum(load.decoding for load in known) == sum(each.is_prefilled for each in counted)
        assert sum(load.output_tokens for load in known) == sum(each.output_tokens for each in counted)


TestLedger = LedgerMachine.TestCase


def test_account_is_opened_once():
    """Equal endpoints share one account, however often a snapshot names them."""
    ledger = fleet.Ledger()
    assert ledger.load(endpoint(1)) is ledger.load(endpoint(1))
    assert ledger.load(endpoint(1)) is not ledger.load(endpoint(2))
