"""Gateways whose route names a Redis share its limit, and report if they cannot."""

import json

import pytest

from headgate import routing
from headgate.gateway import explaining
from headgate.quota import redis_script

LONG_S = 10.0
"""For answers from Redis: how soon they come is not what is tested here."""


def per_month(address: str, **tokens: int) -> routing.TokenLimits:
    return routing.TokenLimits(**tokens, unit="month", unit_s=30 * 86_400, redis_address=address)


def prompt(tokens: int) -> dict[str, str]:
    return {"model": "m", "prompt": "x" * (4 * tokens - 1)}


@pytest.fixture
async def counting_endpoint(start_endpoint):
    """Its answers say that prompts had 10 tokens, and answers 5."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return await start_endpoint(json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode())


@pytest.fixture
def start(start_gateway, counting_endpoint, way):
    """Starts a gateway whose route counts in Redis."""

    async def start(settings: dict[str, object] | None = None, **tokens: int):
        settings = {"rate_limits_wait_s": LONG_S} | (settings or {})
        limits = per_month(way.address, **tokens)
        return await start_gateway(counting_endpoint, settings=settings, limits=limits)

    return start


async def test_two_gateways_have_one_limit(start):
    """A limit of 100 lets 10 requests of 10 tokens pass, less what another gateway has on lease (R34)."""
    gateways = [await start(input=100) for _ in range(2)]
    statuses = [(await gateways[each % 2].ask(prompt(10))).status for each in range(20)]
    assert statuses.count(200) in (9, 10)
    assert set(statuses[10:]) <= {200, 429}


async def test_what_answers_used_is_counted_together(start, client):
    """Output beyond the limit is debt that every gateway knows of."""
    first, second = await start(output=12), await start(output=12)
    for _ in range(3):
        assert (await first.ask(prompt(10))).status == 200
    await first.idle()
    await first.shell.services.limit_sources.close()
    refused = await second.ask(prompt(10))
    assert refused.status == 429
    assert float(await client.hget("kthena:ratelimit:m:output", "tokens")) == pytest.approx(-3, abs=0.1)


async def test_without_redis_requests_go_and_say_so(start, way, eventually):
    """The share of the gateway lets them go; answers, refusals and statistics tell that it did."""
    gateway = await start(input=100)
    answer = await gateway.ask(prompt(10))
    assert answer.status == 200
    assert answer.header("x-headgate-degraded") is None
    await way.close()
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.trouble)
    statuses = []
    for _ in range(12):
        answer = await gateway.ask(prompt(10))
        statuses.append(answer.status)
        assert answer.header("x-headgate-degraded") == "rate-limit"
    assert statuses == [200] * 9 + [429] * 3
    await way.open()
    await eventually(lambda: not source.trouble)
    refused = await gateway.ask(prompt(10))
    assert refused.status == 429
    assert refused.header("x-headgate-degraded") is None


async def test_strict_gateways_refuse_without_redis(start, way, eventually):
    """They say that it is not the client's fault, and when to try again; a prompt too large is told that."""
    gateway = await start({"rate_limits_strict": True}, input=100)
    await way.close()
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.trouble)
    refused = await gateway.ask(prompt(10))
    assert refused.status == 503
    assert refused.json["error"]["code"] == "rate_limiter_unavailable"
    assert refused.header("retry-after") == "1"
    body = json.dumps(prompt(10)).encode()
    explained = explaining.explain(
        explaining.View.of_plane(gateway.shell.plane, gateway.shell.now()), explaining.DEFAULT_PATH, [], body
    )
    assert explained.targets[0].answer.status == 503
    assert (await gateway.ask(prompt(101))).status == 429


async def test_a_client_that_leaves_while_it_waits_uses_nothing(start, redis_server, eventually):
    """A request is dropped with its client, even if its tokens are still to be fetched."""
    gateway = await start(input=100)
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.exchanges.count)
    redis_server.freeze()
    try:
        client = await gateway.connect()
        client.post(prompt(10))
        await eventually(lambda: any(each.exchange for each in gateway.shell.clients.all))
        (waiting,) = gateway.shell.clients.all
        assert waiting.exchange.life.phase == "waiting for tokens"
        client.writer.transport.abort()
        await eventually(lambda: not gateway.shell.clients.all)
    finally:
        redis_server.thaw()
    await gateway.idle()


async def test_only_hosts_that_may_be_named_are_spoken_to(start, way, eventually):
    """A route cannot make a gateway connect to a host that the setting does not name."""
    gateway = await start({"rate_limits_redis_hosts": ("redis.example",)}, input=100)
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.trouble)
    assert "redis_hosts" in source.trouble
    before = way.connections
    assert (await gateway.ask(prompt(10))).status == 200
    assert way.connections == before


async def test_a_limit_that_is_taken_away_is_counted_no_more(start, counting_endpoint, eventually, client):
    """Its lease is given back, and its Redis is let go."""
    gateway = await start(input=100)
    assert (await gateway.ask(prompt(10))).status == 200
    await gateway.idle()
    gateway.serve([counting_endpoint])
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.is_unused)
    assert float(await client.hget(f"{redis_script.PREFIX}:m:input", "tokens")) == pytest.approx(90, abs=0.1)
    gateway.shell._sweep()
    assert not gateway.shell.services.limit_sources.all()


async def test_an_address_with_a_scheme_is_told_of(start_gateway, counting_endpoint, eventually):
    """Whether TLS is spoken is the gateway's setting, as its credentials are."""
    limits = per_month("rediss://redis.example:6380", input=100)
    gateway = await start_gateway(counting_endpoint, limits=limits)
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.trouble)
    assert "without a scheme" in source.trouble
    assert (await gateway.ask(prompt(10))).status == 200
