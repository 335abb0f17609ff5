"""The same stories with limits, where another model or pool takes requests over: nothing is booked twice, and
nothing is left behind in a pool, a queue or a limit that a request has left."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from request_stories import STARTS, Stories

from headgate import api, routing
from headgate.api.fallbacks import REASONS

pytestmark = [pytest.mark.usefixtures("endless_turns"), pytest.mark.counts_calls]

MODEL, POOL = routing.Next("n"), routing.Next("", api.ObjectRef("ModelServer", "default", "spare"))
LIMIT = 50


def _ref(kind, name):
    return api.ObjectRef(kind, "default", name)


class FallbackStories(Stories):
    """The models "m" and "n" have a pool each, and "m" falls back."""

    @initialize(
        attempts=st.sampled_from((None, 0, 2)),
        timeout_s=st.sampled_from((None, 5.0)),
        connector=st.sampled_from((None, None, "nixl", "sglang")),
        room=st.sampled_from((1, 2, None)),
        evicts=st.booleans(),
        start=STARTS,
        next=st.sampled_from(((MODEL,), (POOL,), (POOL, MODEL), (MODEL, POOL))),
        after_s=st.sampled_from((0.0, 10.0)),
        limited=st.sampled_from(("", "m", "n", "mn")),
    )
    def begin(self, attempts, timeout_s, connector, room, evicts, start, next, after_s, limited):
        self.limited = limited
        self.fallback = routing.Fallback(
            next=next,
            reasons=frozenset(REASONS),
            statuses=frozenset({404}),
            after_s=after_s,
            first_token_s=30.0,
        )
        super().begin(attempts, timeout_s, connector, room, evicts, start)

    def _snapshot(self, places):
        snapshot = super()._snapshot(places)
        (route,) = snapshot.models["m"]
        pools = dict(snapshot.pools)
        routes = {"m": (self._limited(route, "m", fallback=self.fallback),)}
        for name, port in (("spare", 101), ("other", 201)):
            made = (routing.Endpoint(f"default/{name}", "127.0.0.1", port),)
            pools[_ref("ModelServer", name)] = routing.Pool(key=_ref("ModelServer", name), endpoints=made)
        target = routing.Target(_ref("ModelServer", "other"), 100)
        other = routing.Route(
            key=_ref("ModelRoute", "other"),
            name="default/other",
            model="n",
            adapters=(),
            rules=(routing.Rule("rule", None, (target,)),),
            created="2026-01-01T00:00:00Z",
        )
        routes["n"] = (self._limited(other, "n"),)
        return routing.Snapshot(models=routes, pools=pools)

    def _limited(self, route, model, **values):
        limits = routing.TokenLimits(input=LIMIT, output=LIMIT, unit="minute", unit_s=60)
        return msgspec.structs.replace(route, limits=limits if model in self.limited else None, **values)

    @rule(stream=st.booleans())
    def a_client_asks_for_the_other_model(self, stream):
        self.a_client_comes("n", stream, False, 0, 0, 0)

    @invariant()
    def limits_hold_what_is_reserved(self):
        self.loop.settle()
        limits = self.shell.plane.routes.limits
        limits.validate()
        for each in self.exchanges:
            reservation = each.life.reservation
            assert reservation is None or reservation.is_settled == each.life.is_over
        for state in self.shell.plane.pools.values():
            running = [
                each
                for each in self.exchanges
                if each.life.traffic is state.traffic and not each.life.is_over
            ]
            assert state.traffic.in_flight == len(running)

    @invariant()
    def what_is_over_holds_no_bodies(self):
        self.loop.settle()
        for each in self.exchanges:
            fallen, state = each.life.fallen, each.life.phase
            if state in ("over", "answering"):
                assert not each.life.request.body
                assert fallen is None or (fallen.body is None and fallen.upcoming is None)

    def teardown(self):
        statistics = self.shell.plane.routes.limits.statistics
        super().teardown()
        assert statistics()["reserved"] == 0


TestFallbackStories = FallbackStories.TestCase
TestFallbackStories.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
