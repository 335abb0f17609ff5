"""Gateways that name a Redis in the limits of a tenant count its tokens together, of all of its models."""

import json

import pytest
import yaml

from headgate.auth import keys

LONG_S = 10.0
"""For answers from Redis: how soon they come is not what is tested here."""
ACCOUNT = "headgate:ratelimit:tenant/team-a/{}:{}"


@pytest.fixture
async def counting_endpoint(start_endpoint):
    """Its answers say that prompts had 10 tokens, and answers 5."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return await start_endpoint(json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode())


@pytest.fixture
def key(tmp_path):
    """Makes the key of a tenant."""
    file, stored = tmp_path / "keys.json", []

    def make(tenant):
        shown, made = keys.create(tenant, "")
        stored.append({name: getattr(made, name) for name in ("id", "tenant", "sha256")})
        file.write_text(json.dumps(stored))
        file.chmod(0o600)
        return shown

    return make


@pytest.fixture
def start(start_gateway, counting_endpoint, way, tmp_path):
    """Starts a gateway with these limits of each tenant, all in Redis."""

    async def start(**limits):
        documents = [
            {
                "apiVersion": "headgate.dev/v1alpha1",
                "kind": "Tenant",
                "metadata": {"name": name.replace("_", "-")},
                "spec": {
                    "limits": [each | {"global": {"redis": {"address": way.address}}} for each in found]
                },
            }
            for name, found in limits.items()
        ]
        tenants = tmp_path / "tenants.yaml"
        tenants.write_text(yaml.safe_dump_all(documents))
        settings = {
            "rate_limits_wait_s": LONG_S,
            "auth_keys_file": str(tmp_path / "keys.json"),
            "auth_tenants_file": str(tenants),
        }
        return await start_gateway(counting_endpoint, settings=settings)

    return start


async def ask(gateway, key, model="m", tokens=10):
    return await gateway.ask({"model": model, "prompt": "x" * (4 * tokens - 1)}, x_api_key=key)


async def test_two_gateways_have_one_limit(start, key, client):
    """Whichever models the tenant uses; another tenant has its own."""
    first, second = key("team-a"), key("team-b")
    limit = [{"unit": "month", "inputTokensPerUnit": 100}]
    gateways = [await start(team_a=limit, team_b=limit) for _ in range(2)]
    answers = [await ask(gateways[each % 2], first, ("m", "adapter")[each // 2 % 2]) for each in range(20)]
    statuses = [each.status for each in answers]
    assert statuses.count(200) in (9, 10)
    assert set(statuses[11:]) <= {200, 429}
    assert answers[-1].status == 429
    assert "tenant/team-a/month" in answers[-1].json["error"]["message"]
    assert (await ask(gateways[0], second)).status == 200
    assert await client.exists(ACCOUNT.format("month", "input"))


async def test_every_window_is_shared(start, key, client):
    """The one that is short is told, by either gateway, and output counts when the response is there."""
    opening = key("team-a")
    limits = [{"unit": "hour", "inputTokensPerUnit": 1000}, {"unit": "month", "outputTokensPerUnit": 12}]
    gateways = [await start(team_a=limits) for _ in range(2)]
    assert [(await ask(gateways[0], opening)).status for _ in range(3)] == [200] * 3
    await gateways[0].idle()
    await gateways[0].shell.services.limit_sources.close()
    refused = await ask(gateways[1], opening)
    assert refused.status == 429
    assert "tenant/team-a/month" in refused.json["error"]["message"]
    tokens = await client.hget(ACCOUNT.format("month", "output"), "tokens")
    assert float(tokens) == pytest.approx(-3, abs=0.1)
    left = await client.hget(ACCOUNT.format("hour", "input"), "tokens")
    assert float(left) <= 971, "the other gateway has some on lease"


async def test_without_redis_each_gateway_has_its_share(start, key, way, eventually):
    """The limit holds, and responses say that it is not the common one."""
    opening = key("team-a")
    gateway = await start(team_a=[{"unit": "month", "inputTokensPerUnit": 100}])
    assert (await ask(gateway, opening)).header("x-headgate-degraded") is None
    await way.close()
    (source,) = gateway.shell.services.limit_sources.all()
    await eventually(lambda: source.trouble)
    answers = [await ask(gateway, opening) for _ in range(12)]
    assert [each.status for each in answers] == [200] * 9 + [429] * 3
    assert {each.header("x-headgate-degraded") for each in answers} == {"rate-limit"}
    await way.open()
    await eventually(lambda: not source.trouble)
    assert (await ask(gateway, opening)).header("x-headgate-degraded") is None


async def test_a_tenant_that_is_gone_needs_no_redis(start, key, eventually):
    """Its connection is closed, as that of a route is."""
    key("team-a")
    gateway = await start(team_a=[{"unit": "month", "inputTokensPerUnit": 100}])
    assert len(gateway.shell.services.limit_sources.all()) == 1
    await start(team_a=[])  # writes the file that both have
    gateway.shell.services.credentials.look()
    await eventually(lambda: not gateway.shell.services.limit_sources.all())
