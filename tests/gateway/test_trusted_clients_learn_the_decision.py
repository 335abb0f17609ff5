"""Trusted clients, and only they, can ask for the decision about their request in `x-headgate-decision`."""

import msgspec
import pytest

from headgate import api, routing

TRUSTED = {"clients_trusted_networks": ("127.0.0.0/8",)}
ASKS = {"X_Headgate_Explain": "1"}


def decision(response):
    """The pairs of the header; those that come several times as a list."""
    value = response.header("x-headgate-decision")
    assert value is not None
    pairs = [pair.split("=", 1) for pair in value.split("; ")]
    tried = [found for key, found in pairs if key == "tried"]
    return dict(pairs) | ({"tried": tried} if tried else {})


async def test_request_that_is_served(start_gateway, endpoint):
    """Route, rule, target, the endpoint's name for the model, the endpoint, and how many were tried."""
    gateway = await start_gateway(endpoint, model="served-name", settings=TRUSTED)
    endpoint.behave = lambda call: call.answer(b"body", **{"x-headgate-decision": "forged"})
    response = await gateway.ask(**ASKS)
    assert response.body == b"body"
    assert [name for name, _ in response.headers].count("x-headgate-decision") == 1
    assert decision(response) == {
        "route": "default/route",
        "rule": "rule",
        "target": "default/pool",
        "model": "served-name",
        "endpoint": "default/pod-0",
        "address": f"127.0.0.1:{endpoint.port}",
        "cached": "0/1",
        "first-token": "20ms",
        "attempts": "1",
    }
    assert endpoint.calls[0].header("x-headgate-explain") is None


async def test_request_that_was_tried_before(start_gateway, start_endpoint):
    """Each endpoint that failed before is named with the reason."""
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead, await start_endpoint(b"alive"), settings=TRUSTED)
    found = decision(await gateway.ask(**ASKS))
    assert (found["endpoint"], found["attempts"]) == ("default/pod-1", "2")
    assert found["tried"] == ["default/pod-0:connect"]


async def test_request_that_is_refused(start_gateway):
    """What was decided until then, and the code of the refusal."""
    gateway = await start_gateway(settings=TRUSTED)
    gateway.serve([])
    found = decision(await gateway.ask(**ASKS))
    assert (found["target"], found["refused"], found["attempts"]) == (
        "default/pool",
        "no_ready_endpoint",
        "0",
    )
    found = decision(await gateway.ask({"model": "nobody"}, **ASKS))
    assert found == {"attempts": "0", "refused": "model_not_found"}


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({}, ASKS),
        (TRUSTED, {}),
        (TRUSTED, {"X_Headgate_Explain": "0"}),
        ({"clients_trusted_networks": ("10.0.0.0/8",)}, ASKS),
        (TRUSTED, {**ASKS, "X_Forwarded_For": "8.8.8.8"}),
        (TRUSTED, {**ASKS, "X_Forwarded_For": "127.0.0.1, 8.8.8.8, 127.0.0.2"}),
        (TRUSTED, {**ASKS, "X_Forwarded_For": "unknown"}),
        (TRUSTED, {**ASKS, "Forwarded": "for=8.8.8.8"}),
    ],
)
async def test_nobody_else_learns_it(start_gateway, start_endpoint, settings, headers):
    """Without a trusted network, from another one, behind a trusted proxy, or without asking: no header,
    served or refused."""
    gateway = await start_gateway(await start_endpoint(b"x"), settings=settings)
    assert (await gateway.ask(**headers)).header("x-headgate-decision") is None
    assert (await gateway.ask({"model": "nobody"}, **headers)).header("x-headgate-decision") is None


async def test_names_cannot_break_the_line(start_gateway, start_endpoint):
    """Whatever an object is called: one line of printable ASCII, of bounded length."""
    gateway = await start_gateway(await start_endpoint(b"x"), settings=TRUSTED)
    snapshot = gateway.shell.plane.snapshot
    (route,) = snapshot.models["m"]
    hostile = "a\r\nset-cookie: x; b=c\x00é" * 200
    rules = tuple(msgspec.structs.replace(rule, name=hostile) for rule in route.rules)
    key = api.ObjectRef("ModelServer", "default", "pool")
    pool = msgspec.structs.replace(snapshot.pools[key], model=hostile)
    made = msgspec.structs.replace(route, rules=rules)
    gateway.shell.use(routing.Snapshot(models={"m": (made,)}, pools={key: pool}))
    response = await gateway.ask(**ASKS)
    value = response.header("x-headgate-decision")
    assert value.isascii()
    assert value.isprintable()
    assert len(value) < 2000
    assert response.header("set-cookie") is None
    assert decision(response)["endpoint"] == "default/pod-0"


async def test_trusted_clients_behind_trusted_proxies_learn_it(start_gateway, start_endpoint):
    """Operators whose network is listed as well."""
    trusted = {"clients_trusted_networks": ("127.0.0.0/8", "10.0.0.0/8")}
    gateway = await start_gateway(await start_endpoint(b"x"), settings=trusted)
    response = await gateway.ask(**ASKS, X_Forwarded_For="10.0.0.7, 127.0.0.1")
    assert response.header("x-headgate-decision") is not None
