"""Who prefills and who decodes: groups, health, caches, and when one endpoint does it all."""

import random

import pytest

from headgate import fleet, routing, scheduling
from headgate.scheduling import Pairs, Policy, Refused, Request, Terms

NOW = 100.0


class Caches:
    """What endpoints hold, in blocks, by name."""

    def __init__(self, **held):
        self.held = held
        self.added = []

    def matched(self, prefix, loads):
        return [min(self.held.get(load.endpoint.name, 0), len(prefix)) for load in loads]

    def add(self, prefix, load, now):
        self.added.append(load.endpoint.name)


class Fleet:
    """Endpoints p1, d1 of group a, p2, d2 of group b and so on; "x" decodes without a group."""

    def __init__(self, *names, group=None, caches=None):
        self.caches = caches or Caches()
        roles, self.loads = {}, {}
        for name in names:
            endpoint = routing.Endpoint(name, "h", 1)
            of = group or (None if name == "x" else name[1:])
            roles[endpoint] = routing.Role(
                prefills=name[0] in "pb", decodes=name[0] in "dbx", group=of, bootstrap_port=1
            )
            self.loads[name] = fleet.EndpointState(endpoint)
        phases = routing.PrefillDecode(connector="nixl", roles=roles)
        self.pairs = Pairs(list(self.loads.values()), phases)
        self.policy = scheduling.PredictedFirstToken(self.caches)
        self.decoding = scheduling.LeastDecoding(self.caches)

    def request(self, tokens=1000):
        """Of blocks of 16 tokens."""
        prefix = range(tokens // 16)
        return Request(model="m", prompt_tokens=tokens, prefix=prefix, block_tokens=16.0)

    def pick(self, request=None, tried=(), tried_prefill=(), policy=None, **terms):
        return scheduling.pick_pair(
            policy or self.policy,
            policy or self.decoding,
            request or self.request(),
            self.pairs,
            Terms(**terms),
            NOW,
            random.Random(0),
            [self.loads[name] for name in tried],
            [self.loads[name] for name in tried_prefill],
        )

    def names(self, *args, **kwargs):
        """Of the endpoints that prefill and decode, and why it is so."""
        pair = self.pick(*args, **kwargs)
        if pair is None:
            return None
        prefill = pair.prefill.load.endpoint.name if pair.prefill is not None else None
        return prefill, pair.decode.load.endpoint.name, pair.why


@pytest.mark.parametrize(
    ("tokens", "hit", "remote"),
    [(400, 0, False), (1000, 0, True), (1000, 512, False), (1024, 512, True)],
)
def test_the_threshold_counts_uncached_tokens(tokens, hit, remote):
    """Vectors of the reference's decider with a limit of 512 tokens."""
    some = Fleet("p1", "d1", caches=Caches(d1=hit // 16))
    prefill, decode, why = some.names(some.request(tokens), remote_tokens=512)
    assert decode == "d1"
    assert (prefill == "p1") is remote
    assert why == ("" if remote else "short" if tokens < 512 else "cached")


def test_without_a_threshold_every_prompt_is_prefilled_apart():
    """Even one that is cached."""
    some = Fleet("p1", "d1", caches=Caches(d1=2))
    assert some.names(some.request(32), remote_tokens=0) == ("p1", "d1", "")


def test_pairs_are_of_one_group():
    """However idle the endpoints of another group are."""
    some = Fleet("p1", "d1", "p2", "d2")
    for _ in range(20):
        some.loads["d1"].book(0, 0, NOW)
        some.loads["p2"].book(5000, 0, NOW)
    assert some.names() == ("p2", "d2", "")


def test_who_decodes_has_somebody_to_prefill():
    """A group whose prefill endpoints are ejected, full or tried gets no prompt that is prefilled apart."""
    some = Fleet("p1", "d1", "p2", "d2", "x")
    some.loads["d2"].book(0, 0, NOW)
    for _ in range(5):
        some.loads["p1"].failed(NOW)
    assert some.names() == ("p2", "d2", "")
    assert some.names(tried_prefill=["p2"])[2] == "no_prefill"


def test_without_anybody_to_prefill_an_endpoint_does_it_all():
    """And it is told why; where that is not possible, nobody is picked."""
    some = Fleet("d1")
    assert some.names() == (None, "d1", "no_prefill")
    assert some.names(decodes_alone=False) is None


def test_an_ejected_endpoint_prefills_where_nobody_else_can_serve():
    """A bad try beats none."""
    some = Fleet("p1", "d1")
    for _ in range(5):
        some.loads["p1"].failed(NOW)
    assert some.names() == (None, "d1", "no_prefill")
    assert some.names(decodes_alone=False) == ("p1", "d1", "")


def test_the_form_of_a_request_may_keep_it_whole():
    """The reason is handed on; whoever cannot serve it alone gets it in two parts nevertheless."""
    some = Fleet("p1", "d1")
    assert some.names(why_not="n") == (None, "d1", "n")
    assert some.names(why_not="n", decodes_alone=False) == ("p1", "d1", "")


def test_who_prefills_is_picked_by_its_queue_and_its_cache():
    """The pool's policy picks it, as if the prompt were all there is."""
    some = Fleet("p1", "p2", "d1", group="g")
    some.loads["p1"].book(200_000, 0, NOW)
    assert some.names()[0] == "p2"
    cached = Fleet("p1", "p2", "d1", group="g", caches=Caches(p1=60))
    pair = cached.pick()
    assert (pair.prefill.load.endpoint.name, pair.prefill.cached_tokens) == ("p1", 960)
    assert pair.prefill_request.role == "prefill"


def test_who_decodes_is_picked_by_what_it_owes():
    """Fetching a prompt costs a little: a cache decides among equals, and not against load."""
    some = Fleet("p1", "d1", "d2", group="g", caches=Caches(d2=30))
    assert some.names()[1] == "d2"
    some.loads["d2"].book(0, 0, NOW)
    assert some.names()[1] == "d1"


def test_where_no_prefix_stays_none_is_looked_for():
    """The cache of a server that only decodes in SGLang's way has no prefixes."""
    some = Fleet("p1", "d1", caches=Caches(d1=60, p1=60))
    pair = some.pick(keeps_prefix=False, remote_tokens=512)
    assert (pair.decode.cached_tokens, pair.request.prefix, pair.request.role) == (0, (), "decode")
    assert pair.prefill.cached_tokens == 960
    some.decoding.booked(pair.request, pair.decode, NOW)
    some.policy.booked(pair.prefill_request, pair.prefill, NOW)
    assert some.caches.added == ["p1"]


def test_an_endpoint_with_both_roles_is_never_its_own_partner():
    """It serves whole requests where it is the only one that prefills."""
    assert Fleet("b1").names() == (None, "b1", "no_prefill")
    assert Fleet("b1", "p2", group="g").names() == ("p2", "b1", "")


def test_what_was_prefilled_is_decoded_by_another_of_the_group():
    """Without prefilling it again."""
    some = Fleet("p1", "d1", "d2", "d3", group="g")
    other = Fleet("p1", "d1", "p2", "d2")
    pair = some.pick()
    again = scheduling.pick_again(some.decoding, pair, some.pairs, NOW, random.Random(0), [pair.decode.load])
    assert again.prefill is pair.prefill
    assert again.decode.load is not pair.decode.load
    alone = other.pick()
    assert (
        scheduling.pick_again(other.decoding, alone, other.pairs, NOW, random.Random(0), [alone.decode.load])
        is None
    )


def test_s14_a_policy_may_refuse_everybody():
    """Where the only endpoint that decodes is too busy for its policy, nobody is picked."""

    class TooBusy(Policy):
        def pick(self, request, candidates, now, rng):
            return None

        def refusal(self, request, candidates, now):
            return Refused(why="20 requests wait", is_busy=True)

    assert Fleet("p1", "d1").names(policy=TooBusy()) is None


def test_a_burst_spreads_over_prefill_and_decode():
    """800 arrivals at once, each booked before the next: no endpoint has more than 1.2 times the mean."""
    names = [f"p{place}" for place in range(4)] + [f"d{place}" for place in range(4)]
    some = Fleet(*names, group="g")
    for _ in range(800):
        pair = some.pick(Request(model="m", prompt_tokens=1000))
        pair.prefill.load.book(1000, 0, NOW)
        pair.decode.load.book(0, 100, NOW, is_streamed=False)
    assert max(load.requests for load in some.loads.values()) <= 1.2 * 200
