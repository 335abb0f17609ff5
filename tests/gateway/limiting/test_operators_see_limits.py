"""Metrics, admin port, access log and decision header show the state of limits and what was counted."""

import json

import httpx2
import msgspec
import pytest

from headgate.dataplane.explaining.explanation import Explanation, LimitShown
from headgate.gateway import gauges, pages

EXPLAINED = {"X_Headgate_Explain": "1"}
TRUSTED = {"clients_trusted_networks": ("127.0.0.0/8",)}


@pytest.fixture
def admin():
    """Asks the admin port of a gateway."""

    async def ask(gateway, path, body=None) -> bytes:
        transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
        async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
            response = await (client.get(path) if body is None else client.post(path, json=body))
        assert response.status_code == 200
        return response.content

    return ask


async def test_metrics_tell_of_each_direction(
    start_gateway, endpoint, per_month, prompt, counted, eventually
):
    """What is allowed, left, in debt, reserved and used, and how many were refused for it."""
    gateway = await start_gateway(endpoint, limits=per_month(100, 50))
    gauges.add_gauges(gateway.registry, gateway.shell)

    def metric(name, direction):
        labels = {"route": "default/route", "direction": direction}
        return round(gateway.metric(f"headgate_gateway_limit_{name}", **labels))

    client = await gateway.connect()
    client.post(prompt(8, max_tokens=60))
    call = await endpoint.call()
    assert [metric(name, "input") for name in ("tokens", "available_tokens", "reserved_tokens")] == [
        100,
        92,
        8,
    ]
    assert [metric(name, "output") for name in ("tokens", "debt_tokens", "reserved_tokens")] == [50, 10, 60]
    call.answer(counted(9, 70))
    await client.response()
    assert (await gateway.ask(prompt(8))).status == 429
    assert [metric("used_tokens_total", each) for each in ("input", "output")] == [9, 70]
    assert [metric("refused_total", each) for each in ("input", "output")] == [0, 1]
    assert [metric("available_tokens", each) for each in ("input", "output")] == [91, 0]
    assert [metric("debt_tokens", each) for each in ("input", "output")] == [0, 20]
    assert metric("reserved_tokens", "output") == 0
    gateway.serve([endpoint])
    assert gateway.metric("headgate_gateway_limit_tokens") == 0


async def test_the_admin_port_lists_limits(start_gateway, endpoint, per_month, prompt, counted, admin):
    """By route and direction; where there is none, nothing."""
    gateway = await start_gateway(endpoint, limits=per_month(output=50))
    client = await gateway.connect()
    client.post(prompt(8, max_tokens=20))
    call = await endpoint.call()
    (shown,) = json.loads(await admin(gateway, "/debug/limits")).values()
    assert shown["output"].pop("full_in_s") == pytest.approx(20 / 50 * 30 * 86_400, abs=60)
    assert shown["output"].pop("available") == pytest.approx(30, abs=0.1)
    assert shown == {
        "unit": "month",
        "redis": None,
        "degraded": False,
        "output": {"limit": 50, "reserved": 20, "used": 0, "requests_refused": 0},
    }
    call.answer(counted(8, 1))
    await client.response()
    gateway.serve([endpoint])
    assert json.loads(await admin(gateway, "/debug/limits")) == {}


async def test_an_explanation_has_the_limit(start_gateway, endpoint, per_month, prompt, counted, admin):
    """What is left, and the very refusal that a client would get; asking takes nothing."""
    gateway = await start_gateway(endpoint, limits=per_month(input=10))
    endpoint.behave = lambda call: call.answer(counted(8, 1))
    for _ in range(2):
        found = msgspec.json.decode(
            await admin(gateway, "/debug/explain/v1/chat/completions", prompt(8)), type=Explanation
        )
        assert found.decided.answer is None
    assert found.routes[0].limits == (
        LimitShown(direction="input", tokens=10, unit="month", available=10, reserved=0),
    )
    assert (await gateway.ask(prompt(8))).status == 200
    content = await admin(gateway, "/debug/explain/v1/chat/completions", prompt(8))
    answer = msgspec.json.decode(content, type=Explanation).decided.answer
    refused = await gateway.ask(prompt(8))
    assert (answer.status, answer.body) == (429, refused.body.decode())
    names = {name for name, _ in refused.headers} - {"x-request-id"}
    assert set(answer.headers) == names


async def test_a_decision_tells_what_is_left(start_gateway, start_endpoint, per_month, prompt, counted):
    """In the header that trusted clients may ask for, served or refused."""
    endpoint = await start_endpoint(counted(8, 4))
    gateway = await start_gateway(endpoint, limits=per_month(10, 300), settings=TRUSTED)
    served = (await gateway.ask(prompt(8), **EXPLAINED)).header("x-headgate-decision")
    assert "; limit-input=2/10; limit-output=50/300; " in served
    refused = (await gateway.ask(prompt(8), **EXPLAINED)).header("x-headgate-decision")
    assert "; limit-input=2/10; limit-output=296/300; " in refused
    assert refused.endswith("; refused=rate_limit_exceeded")


@pytest.mark.parametrize("form", ["json", "text"])
async def test_the_access_log_tells_what_was_counted(
    start_gateway, start_endpoint, per_month, prompt, counted, form
):
    """Of the directions that are limited; of a refused request nothing."""
    endpoint = await start_endpoint(counted(9, 4))
    gateway = await start_gateway(endpoint, limits=per_month(input=10), settings={"logging_access_log": form})
    for _ in range(2):
        await gateway.ask(prompt(8))
    gateway.serve([endpoint])
    await gateway.ask(prompt(8))
    lines = gateway.log_lines()
    if form == "text":
        assert [" limit=9/- " in line for line in lines] == [True, False, False]
        assert [" limit=" in line for line in lines] == [True, False, False]
    else:
        lines = [json.loads(line) for line in lines]
        assert [line["limit_input_tokens"] for line in lines] == [9, None, None]
        assert [line["limit_output_tokens"] for line in lines] == [None] * 3
        assert [line["outcome"] for line in lines] == ["served", "rate_limit_exceeded", "served"]
