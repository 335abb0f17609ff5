"""`/debug/explain` predicts the outcome of a request; a real request then has just that outcome."""

import asyncio
import contextlib
import copy
import json

import httpx2
import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import api, routing, serving
from headgate.cli import main
from headgate.dataplane.explaining.explanation import Explanation
from headgate.dataplane.trust import Networks, Peer
from headgate.fleet import LearnedSizes
from headgate.gateway import explaining, pages
from headgate.gateway.explaining import View, explain, view_of_objects
from headgate.gateway.request import ParsedHead, Request
from headgate.requests import paths
from headgate.requests.deciding.decide import decide
from headgate.requests.destinations import destinations
from headgate.routing.patterns import RequestPattern, StringPattern
from headgate.workers import messages, worker


async def asked(gateway, body, path="/v1/chat/completions", **headers):
    """The explanation that the admin port gives."""
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await client.post(f"/debug/explain{path}", content=content, headers=headers)
    assert response.status_code == 200
    return msgspec.json.decode(response.content, type=Explanation)


def books(shell):
    """Everything that a request changes."""
    loads = [
        (load.requests, load.work_tokens, load.started, load.failures) for load in shell.plane.ledger.loads()
    ]
    return loads, copy.deepcopy({key: split._credits for key, split in shell.plane.splits._splits.items()})


async def test_request_that_would_be_served(start_gateway, start_endpoint):
    """The route, the rule, the target, the endpoint and the body that is sent; then it happens so."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint, model="served-name")
    body = {"model": "m", "stream": True, "messages": []}
    before = books(gateway.shell)
    found = await asked(gateway, body)
    assert books(gateway.shell) == before
    assert endpoint.calls == []
    assert (found.model, found.path, found.stream) == ("m", "/v1/chat/completions", True)
    assert found.is_live
    (route,) = found.routes
    assert (route.name, route.serves, route.rules[0].serves) == ("default/route", True, True)
    target = found.decided
    assert (target.model_server, target.upstream_model, target.share) == ("default/pool", "served-name", 1)
    assert (target.endpoint.name, target.endpoint.state) == ("default/pod-0", "healthy")
    assert target.answer is None
    assert len(target.changes) == 2
    await gateway.ask(body)
    assert endpoint.calls[0].body.decode() == target.body


async def test_refusals_are_the_very_answers(start_gateway):
    """Status, headers and body are those that a client then gets."""
    gateway = await start_gateway()
    gateway.serve([])
    for body, path in (
        ({"model": "nobody"}, "/v1/chat/completions"),
        ({"model": "nobody"}, "/v1/messages"),
        (b"{", "/v1/completions"),
        ({"model": 5}, "/v1/completions"),
        ({"model": "m"}, "/v1/completions"),
    ):
        found = await asked(gateway, body, path)
        told = found.answer or found.decided.answer
        response = await gateway.ask(body, path)
        assert (told.status, told.body) == (response.status, response.body.decode())
        assert told.headers.items() <= dict(response.headers).items()


async def test_reasons_of_rules_and_targets(start_gateway):
    """Each rule that is passed over has its reason, and turns come as they are told."""
    gateway = await start_gateway()
    gateway.serve([])
    pools = [api.ObjectRef("ModelServer", "default", name) for name in ("pool", "other")]
    targets = tuple(routing.Target(pool, weight) for pool, weight in zip(pools, (2, 1), strict=True))
    rules = (
        routing.Rule("gold", RequestPattern(headers=((b"tier", StringPattern(exact="gold")),)), targets),
        routing.Rule("all", None, targets),
        routing.Rule("late", None, targets),
    )
    route = routing.Route(
        key=api.ObjectRef("ModelRoute", "d", "r"), name="d/r", model="m", adapters=(), rules=rules
    )
    snapshot = gateway.shell.plane.snapshot
    pool = snapshot.pools[pools[0]]
    gateway.shell.use(
        routing.Snapshot(
            models={"m": (route,)},
            pools={key: msgspec.structs.replace(pool, key=key) for key in pools},
        )
    )
    served = []
    for _ in range(6):
        found = await asked(gateway, {"model": "m"}, tier="basic")
        assert [rule.why for rule in found.routes[0].rules] == [
            'header tier: "basic" is not exactly "gold"',
            "fits every request",
            "would fit, but an earlier rule serves",
        ]
        assert [target.share for target in found.targets] == [0.6667, 0.3333]
        response = await gateway.ask({"model": "m"}, tier="basic")
        assert found.decided.model_server in response.json["error"]["message"]
        served.append(found.decided.model_server)
    assert sorted(served) == ["default/other"] * 2 + ["default/pool"] * 4


async def test_reasons_of_endpoints(start_gateway, start_endpoint):
    """Those that are ejected, full, avoided, or busier say so; and which it is comes true."""
    endpoints = [await start_endpoint(behave=lambda call: call.answer(b"x")) for _ in range(5)]
    gateway = await start_gateway(*endpoints, settings={"endpoints_max_connections": 3})
    now = 1000.0
    gateway.shell.services.now = lambda: now
    ejected, full, avoided, busy, idle = gateway.shell.plane.ledger.loads()
    for reason in ["status_401"] * 4 + ["reset"]:
        ejected.failed(now, reason)
    bookings = [full.book(0, 0, now) for _ in range(3)]
    avoided.failed(now)
    bookings.append(busy.book(10, 0, now))
    found = await asked(gateway, {"model": "m"})
    shown = found.decided.endpoints
    assert [each.state for each in shown] == ["ejected", "full", "avoided", "healthy", "healthy"]
    assert [each.why for each in shown] == [
        "gets no requests for another 5.0 s, after 5 failures in a row, the last: status_401 (4), reset (1)",
        "has 3 requests, the limit per gateway",
        "failed 0.0 s ago: used only if there is no other",
        "first token in 0.041 s (queue 0.021 + prefill 0.020): 3 prompt tokens to prefill at 10000/s "
        "(0 are cached); 1 request in flight, by the ledger alone",
        "first token in 0.020 s (prefill 0.020): 3 prompt tokens to prefill at 10000/s "
        "(0 are cached); 0 requests in flight, by the ledger alone",
    ]
    assert found.decided.endpoint.name == idle.endpoint.name
    await gateway.ask()
    assert [len(endpoint.calls) for endpoint in endpoints] == [0, 0, 0, 0, 1]
    for booking in bookings:
        booking.end(now)


async def test_explanations_are_bounded_and_posted(gateway, endpoint):
    """A body beyond the limit of requests is refused here too; a GET is no request to explain."""
    settings = gateway.shell.settings.replace(clients_max_body_bytes=1000)
    gateway.shell.services.settings = settings
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        assert (await client.post("/debug/explain", content=b"x" * 2000)).status_code == 413
        assert (await client.get("/debug/explain")).status_code == 405
        response = await client.post("/debug/explain", content=b'{"model":"m"}')
        assert response.json()["path"] == explaining.DEFAULT_PATH


async def test_worker_that_is_asked_by_its_supervisor(gateway):
    """The headers of the request come along, and so do its path and body."""
    ask = messages.Ask(1, "POST", "/debug/explain/v1/completions", "", b'{"model":"m"}', [("x-tier", "gold")])
    rule = routing.Rule("gold", RequestPattern(headers=((b"x-tier", StringPattern(exact="gold")),)), ())
    route = routing.Route(
        key=api.ObjectRef("ModelRoute", "d", "r"), name="d/r", model="m", adapters=(), rules=(rule,)
    )
    gateway.shell.use(routing.Snapshot(models={"m": (route,)}))
    answered = await worker.answer(pages.admin_page(gateway.shell), ask)
    found = msgspec.json.decode(answered.body, type=Explanation)
    assert (answered.status, found.path, found.model) == (200, "/v1/completions", "m")
    assert found.routes[0].rules[0].serves


async def test_command_that_asks_a_gateway(gateway, endpoint):
    """The request's headers reach the gateway, and none besides; the endpoint that is picked is told."""
    listener = serving.listening_socket("127.0.0.1", 0)
    server = serving.EmbeddedServer(serving.configuration(pages.admin_page(gateway.shell)))
    async with contextlib.aclosing(server), asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve([listener]))
        await server.accepting.wait()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        arguments = ["route", "explain", "--gateway", url, "--model", "m", "-H", "x-tier=basic"]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        refused = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--model", "n"])
        server.stop()
    assert f"It would be sent to default/pod-0 (127.0.0.1:{endpoint.port}).\n" in result.output
    assert result.exit_code == 0
    assert "Similar names: m." not in refused.output
    assert refused.exit_code == 1


KEYS = [api.ObjectRef("ModelServer", "d", name) for name in "pq"]
STRINGS = st.sampled_from([None, StringPattern(exact="a"), StringPattern(prefix="a")])
RULES = st.builds(
    routing.Rule,
    st.just("rule"),
    st.none() | st.builds(lambda value: RequestPattern(headers=((b"h", value or StringPattern()),)), STRINGS),
    st.lists(st.builds(routing.Target, st.sampled_from(KEYS), st.integers(0, 3)), min_size=1, max_size=3).map(
        tuple
    ),
)
ROUTES = st.builds(
    lambda rules: routing.Route(
        key=api.ObjectRef("ModelRoute", "d", "r"), name="d/r", model="m", adapters=("n",), rules=tuple(rules)
    ),
    st.lists(RULES, max_size=3),
)
POOLS = st.lists(
    st.builds(
        lambda key, model, count: routing.Pool(
            key=key,
            model=model,
            endpoints=tuple(routing.Endpoint(f"d/{n}", "127.0.0.1", 1000 + n) for n in range(count)),
        ),
        st.sampled_from(KEYS),
        st.sampled_from([None, "served"]),
        st.integers(0, 2),
    ),
    max_size=2,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROUTES, POOLS, st.sampled_from(["m", "n", "x"]), st.sampled_from(["", "a", "ab"]), st.booleans())
def test_explanation_agrees_with_the_decision(route, pools, model, value, stream):
    """Whatever the objects and the request: the same route, rule, pool, body and refusal."""
    snapshot = routing.Snapshot(
        models={"m": (route,)}, adapters={"n": (route,)}, pools={pool.key: pool for pool in pools}
    )
    view = view_of_objects(snapshot, knows_endpoints=True)
    view = View(snapshot, view.pools, view.turns, 0.0, 1, is_live=True)
    body = json.dumps({"model": model, "stream": stream}).encode()
    headers = [(b"h", value.encode())]
    for _ in range(4):
        found = explain(view, "/v1/completions", headers, body)
        assert explain(view, "/v1/completions", headers, body) == found
        head = ParsedHead(b"POST", b"/v1/completions", headers, False, Peer("", Networks(())), b"")
        request = Request(head, body, True, 0.0)
        known = _Known(snapshot, view.pools, view.turns)
        decision = decide(known, request)
        serving = [shown.name for shown in found.routes if shown.serves]
        assert serving == ([decision.match.route.name] if decision.match else [])
        if decision.refusal is not None:
            told = found.answer or found.decided.answer
            assert told.status == decision.refusal.status
            assert decision.refusal.code in told.body
        else:
            assert found.answer is None
            target = found.decided
            assert target.model_server == decision.pool.name
            assert (target.body, target.upstream_model) == (decision.body.decode(), decision.upstream_model)
            assert (target.endpoint is not None) == bool(decision.pool.loads)
            assert (target.answer is None) == bool(decision.pool.loads)


class _Known:
    def __init__(self, snapshot, pools, splits):
        self.snapshot, self.pools, self.splits, self.is_ready = snapshot, pools, splits, True
        self.destinations = destinations(snapshot, pools)
        self.paths = paths.Paths()
        self.sizes = LearnedSizes()


@pytest.mark.parametrize("hostile", ["\x00", "‮", "é", "x" * 100_000, "\ud800"])
async def test_hostile_models(gateway, hostile):
    """Whatever a model is called, the explanation can be read."""
    found = await asked(gateway, json.dumps({"model": hostile}).encode())
    assert found.answer.status in (400, 404)


async def test_reasons_of_endpoints_by_what_they_answered(start_gateway, start_endpoint):
    """One rests, one rejected a request that another has now, one fails often, one lacks the adapter."""
    endpoints = [await start_endpoint(b"x") for _ in range(5)]
    gateway = await start_gateway(*endpoints)
    now = 1000.0
    gateway.shell.services.now = lambda: now
    resting, suspected, failing, lacking, _ = gateway.shell.plane.ledger.loads()
    resting.rests(now, 20)
    suspected.suspected(now)
    failing.failed(now, "status_500")
    failing.ejection.until, failing.ejection.failure_rate = now + 5, 0.4
    lacking.lacks("adapter", now)
    shown = (await asked(gateway, {"model": "adapter"})).decided.endpoints
    assert [each.state for each in shown] == ["resting", "avoided", "ejected", "healthy", "healthy"]
    assert [each.why for each in shown[:4]] == [
        "asked for no requests for another 20.0 s (Retry-After)",
        "rejected a request that is being retried elsewhere: used only if there is no other",
        "gets no requests for another 5.0 s, after failing 40% of its requests, far more than the others, "
        "the last: status_500 (1)",
        "answered 404 for adapter adapter",
    ]
