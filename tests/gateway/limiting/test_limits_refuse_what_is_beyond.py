"""A route admits requests while its limit has tokens for them, under any of its model names."""

import pytest

from headgate import api
from headgate.api.kthena_networking import StringMatch
from headgate.kubeschema import regex
from headgate.routing import patterns


async def test_the_second_prompt_is_beyond_the_limit(
    start_gateway, start_endpoint, per_month, prompt, counted
):
    """Of two prompts of 8 tokens, a limit of 10 lets one pass (R29)."""
    gateway = await start_gateway(await start_endpoint(counted(8, 1)), limits=per_month(input=10))
    assert (await gateway.ask(prompt(8))).status == 200
    refused = await gateway.ask(prompt(8))
    assert refused.status == 429
    assert refused.json["error"]["type"] == "tokens"
    assert refused.json["error"]["code"] == "rate_limit_exceeded"
    assert (
        "10 input tokens per month, of which 2 are left, and the prompt has about 8"
        in refused.json["error"]["message"]
    )
    assert (await gateway.ask(prompt(2))).status == 200


async def test_a_prompt_beyond_the_whole_limit_never_passes(start_gateway, endpoint, per_month, prompt):
    """It is told so, and neither when to try again nor to try again at all (R32)."""
    gateway = await start_gateway(endpoint, limits=per_month(input=5))
    for _ in range(2):
        refused = await gateway.ask(prompt(9))
        assert refused.status == 429
        assert "it can never pass" in refused.json["error"]["message"]
        assert refused.header("retry-after") is None
        assert refused.header("x-should-retry") == "false"
    assert not endpoint.calls


async def test_names_of_adapters_count_for_their_route(
    start_gateway, start_endpoint, per_month, prompt, counted
):
    """Requests for the model and for an adapter use the same tokens."""
    gateway = await start_gateway(await start_endpoint(counted(8, 1)), limits=per_month(input=10))
    assert (await gateway.ask(prompt(8) | {"model": "adapter"})).status == 200
    assert (await gateway.ask(prompt(8))).status == 429
    assert (await gateway.ask(prompt(8) | {"model": "adapter"})).status == 429


async def test_output_in_debt_stops_the_next_request(
    start_gateway, start_endpoint, per_month, prompt, counted, left, learn_answers
):
    """The last token is enough to go; what is generated beyond is debt, and nothing goes while there is."""
    gateway = await start_gateway(await start_endpoint(counted(8, 40)), limits=per_month(output=60))
    learn_answers(gateway, 40)
    assert (await gateway.ask(prompt(8))).status == 200
    assert left(gateway) == (None, 20)
    assert (await gateway.ask(prompt(8))).status == 200
    assert left(gateway) == (None, -20)
    refused = await gateway.ask(prompt(8))
    assert refused.status == 429
    assert "60 output tokens per month, of which none is left" in refused.json["error"]["message"]


async def test_input_is_not_used_where_output_is_short(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """A request that is refused for its output leaves the input as it was."""
    gateway = await start_gateway(await start_endpoint(counted(8, 90)), limits=per_month(20, 60))
    assert (await gateway.ask(prompt(8))).status == 200
    assert (await gateway.ask(prompt(8))).status == 429
    assert left(gateway) == (12, -30)


async def test_a_burst_cannot_run_away(start_gateway, endpoint, per_month, prompt, counted, eventually, left):
    """Of many requests at once so many go as answers of the expected length have room, and one more."""
    gateway = await start_gateway(endpoint, limits=per_month(output=100))
    clients = [await gateway.connect() for _ in range(8)]
    for client in clients:
        client.post(prompt(8, max_tokens=40))
    await eventually(lambda: len(endpoint.calls) == 3 and gateway.settled == 5)
    assert left(gateway) == (None, -20)
    for call in endpoint.calls:
        call.answer(counted(8, 10))
    statuses = [(await client.response()).status for client in clients]
    assert sorted(statuses) == [200] * 3 + [429] * 5
    assert left(gateway) == (None, 70)


async def test_two_routes_for_a_model_have_a_limit_each(
    start_gateway, start_endpoint, per_month, prompt, counted, changed
):
    """Neither uses the other's tokens, nor replaces its limit."""
    gateway = await start_gateway(await start_endpoint(counted(8, 1)), limits=per_month(input=10))
    snapshot = gateway.shell.plane.snapshot
    (everybody,) = snapshot.models["m"]
    is_gold = patterns.compile_string(StringMatch(exact="gold"), regex.Budget())
    pattern = patterns.RequestPattern(headers=((b"x-tier", is_gold),), path=None, model=None)
    gold = changed(
        everybody,
        key=api.ObjectRef("ModelRoute", "default", "gold"),
        name="default/gold",
        rules=tuple(changed(rule, pattern=pattern) for rule in everybody.rules),
        limits=per_month(input=20),
    )
    gateway.shell.use(changed(snapshot, models={"m": (gold, everybody)}))
    assert (await gateway.ask(prompt(8))).status == 200
    assert (await gateway.ask(prompt(8))).status == 429
    assert (await gateway.ask(prompt(8), x_tier="gold")).status == 200
    assert (await gateway.ask(prompt(8), x_tier="gold")).status == 200
    assert (await gateway.ask(prompt(8), x_tier="gold")).status == 429


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
async def test_every_api_has_its_form(start_gateway, endpoint, per_month, prompt, path):
    """Anthropic's clients get the error that they know."""
    gateway = await start_gateway(endpoint, limits=per_month(input=5))
    refused = await gateway.ask(prompt(9), path)
    error = refused.json["error"]
    assert refused.status == 429
    assert error["type"] == ("rate_limit_error" if path == "/v1/messages" else "tokens")
