"""The time to match a request to a rule is bounded, however many conditions the routes have."""

import json

import msgspec
import pytest

from headgate import api, routing
from headgate.routing import patterns

COSTLY = "(.*){10}(x|y)$"
VALUE = b"a" * 900


def made(name, rules):
    source = {"metadata": {"name": name, "namespace": "default"}, "spec": {"modelName": "m", "rules": rules}}
    return msgspec.convert(source, api.ModelRoute)


def rule(conditions, expression):
    """A rule with so many conditions on one header, whose names differ in case alone."""
    names = [f"{number:012b}".replace("0", "x").replace("1", "X") for number in range(conditions)]
    headers = {name: {"regex": expression} for name in names}
    return {"modelMatch": {"headers": headers}, "targetModels": [{"modelServerName": "pool"}]}


def serve(gateway, endpoint, routes):
    gateway.serve([endpoint])
    models = routing.translate(routes, [], []).models
    gateway.shell.use(msgspec.structs.replace(gateway.shell.plane.snapshot, models=models, adapters={}))


async def ask(gateway, value):
    client = await gateway.connect()
    body = b'{"model":"m","prompt":"p"}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nxxxxxxxxxxxx: %b\r\ncontent-length: %d\r\n\r\n"
    client.send(head % (value, len(body)) + body)
    return await client.response()


@pytest.mark.parametrize(
    ("routes", "rules", "conditions"), [(1, 16, 1000), (600, 16, 1)], ids=["conditions", "routes"]
)
async def test_costly_routes_refuse_the_request(gateway, endpoint, monkeypatch, routes, rules, conditions):
    """Neither many conditions nor many routes of one model get more steps than one request may cause."""
    spent = []
    spend = patterns.Work.spend

    def spend_and_note(work, steps):
        spent.append(steps)
        spend(work, steps)

    monkeypatch.setattr(patterns.Work, "spend", spend_and_note)
    # Where there are many conditions each holds, so that the next is compared; of many routes none does.
    expression = "^a*$|" + COSTLY if conditions > 1 else COSTLY
    serve(
        gateway,
        endpoint,
        [made(f"r{number}", [rule(conditions, expression)] * rules) for number in range(routes)],
    )
    response = await ask(gateway, VALUE)
    assert (response.status, json.loads(response.body)["error"]["code"]) == (400, "routes_too_costly")
    assert "fewer or smaller regular expressions" in response.json["error"]["message"]
    assert sum(spent[:-1]) <= patterns.MAX_STEPS
    assert endpoint.calls == []
    assert gateway.metric("headgate_gateway_requests_total", outcome="routes_too_costly") == 1


async def test_short_request_is_served_by_the_same_routes(gateway, endpoint):
    """The bound is on the work, not on the number of conditions."""
    endpoint.behave = lambda call: call.answer()
    serve(gateway, endpoint, [made("r", [rule(1000, "^a*$")])])
    assert (await ask(gateway, b"a")).status == 200


def test_explanation_says_that_it_took_too_much():
    """Rules that a request never came to are named as such, and none of them as its match."""
    snapshot = routing.translate([made("r", [rule(1000, "^a*$|" + COSTLY)] * 2)], [], [])
    value = VALUE.decode()
    with pytest.raises(routing.TooCostlyError):
        routing.match(snapshot, "m", "/", lambda name: value)
    reading = routing.explain(snapshot, "m", "/", lambda name: value)
    assert reading.match is None
    assert all("not compared" in each.unmet for each in reading.routes[0].rules)
