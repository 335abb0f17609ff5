"""Every response of a limited route has OpenAI's headers with the rest of the limit."""

import pytest

from headgate import routing
from headgate.flow.limits import RouteLimit, local_budget
from headgate.requests.limits import headers

WHAT = ("limit", "remaining", "reset")
NAMES = [f"x-ratelimit-{what}-{each}" for what in WHAT for each in ("requests", "tokens")]


def told(response) -> dict[str, str]:
    found = [(name, value) for name, value in response.headers if name.startswith("x-ratelimit-")]
    assert len(found) == len(dict(found))
    return dict(found)


async def test_answers_and_refusals_have_all_headers(
    start_gateway, start_endpoint, per_month, prompt, counted
):
    """Tokens as they stand; requests are those like this one."""
    gateway = await start_gateway(await start_endpoint(counted(8, 1)), limits=per_month(input=20))
    served = told(await gateway.ask(prompt(8)))
    assert sorted(served) == sorted(NAMES)
    assert (served["x-ratelimit-limit-tokens"], served["x-ratelimit-remaining-tokens"]) == ("20", "12")
    assert (served["x-ratelimit-limit-requests"], served["x-ratelimit-remaining-requests"]) == ("2", "1")
    assert served["x-ratelimit-reset-tokens"].startswith(("288h0m0s", "287h59m"))
    refused = await gateway.ask(prompt(16))
    assert refused.status == 429
    assert told(refused)["x-ratelimit-remaining-tokens"] == "12"
    assert told(refused)["x-ratelimit-remaining-requests"] == "0"
    assert int(refused.header("retry-after")) in range(4 * 36 * 3600 - 60, 4 * 36 * 3600 + 1)


async def test_streams_have_them_in_their_head(gateway, endpoint, per_month, prompt):
    """With what is reserved for the request taken off."""
    gateway.serve([endpoint], per_month(input=20))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"c\r\ndata: {}\r\n\r\n\r\n")
    assert told(await client.head())["x-ratelimit-remaining-tokens"] == "12"


async def test_an_endpoints_own_headers_give_way(start_gateway, start_endpoint, per_month, prompt, counted):
    """It speaks of another limit; where the route has none, its word passes."""
    own = {"x-ratelimit-limit-tokens": "7"}
    endpoint = await start_endpoint(behave=lambda call: call.answer(counted(8, 1), **own))
    gateway = await start_gateway(endpoint, limits=per_month(input=20))
    assert told(await gateway.ask(prompt(8)))["x-ratelimit-limit-tokens"] == "20"
    gateway.serve([endpoint])
    assert told(await gateway.ask(prompt(8))) == own


async def test_routes_without_a_limit_say_nothing(gateway, endpoint, prompt):
    """Their heads are as the endpoint sent them."""
    client = await gateway.connect()
    client.post(prompt(8))
    (await endpoint.call()).answer()
    assert told(await client.response()) == {}


def lines(limits: routing.TokenLimits, used: tuple[int, int], request: tuple[int, int]) -> dict[str, str]:
    rule = routing.Rule("rule", None, ())
    route = routing.Route(key=None, name="r", model="m", adapters=(), rules=(rule,), limits=limits)
    limit = RouteLimit(route, local_budget, 0.0)
    for account, tokens in zip((limit.input, limit.output), used, strict=True):
        if account is not None:
            account.budget.charge(tokens, 0.0)
    found = headers.lines(limit, *request, 0.0).decode().splitlines()
    return dict(line.removeprefix("x-ratelimit-").split(": ") for line in found)


MINUTE = {"unit": "minute", "unit_s": 60}


def test_the_direction_that_is_nearer_to_its_end_is_told():
    """Of input and output, the one of which the smaller share is left."""
    limits = routing.TokenLimits(input=1000, output=100, **MINUTE)
    found = lines(limits, (100, 50), (300, 40))
    assert (found["limit-tokens"], found["remaining-tokens"], found["reset-tokens"]) == ("100", "50", "30s")
    assert (found["limit-requests"], found["remaining-requests"]) == ("3", "2")
    found = lines(limits, (900, 50), (30, 40))
    assert (found["limit-tokens"], found["remaining-tokens"], found["reset-tokens"]) == ("1000", "100", "54s")
    assert (found["limit-requests"], found["remaining-requests"]) == ("3", "2")


def test_debt_is_nothing_left():
    """And takes longer than the unit to be full again."""
    limits = routing.TokenLimits(output=100, **MINUTE)
    found = lines(limits, (0, 150), (5, 0))
    assert (found["remaining-tokens"], found["remaining-requests"]) == ("0", "0")
    assert found["reset-tokens"] == found["reset-requests"] == "1m30s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, b"0s"),
        (0.0201, b"21ms"),
        (0.9999, b"1s"),
        (1.0, b"1s"),
        (7.2, b"8s"),
        (59.5, b"1m0s"),
        (90.0, b"1m30s"),
        (3600.0, b"1h0m0s"),
        (2_592_000.0, b"720h0m0s"),
    ],
)
def test_times_are_written_as_openai_does(seconds, text):
    """Never shorter than they are."""
    assert headers.duration(seconds) == text
