"""Pairs of simulated engines that reject any deviation from their connector's protocol."""

import asyncio
import contextlib
import json

import httpx2
import pytest

from headgate import api, routing
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

WORDS = "In the beginning there was a canal, and at its head stood a gate. " * 20
CHAT = {"model": "m", "messages": [{"role": "user", "content": WORDS}], "max_tokens": 6, "ignore_eos": True}
TEXT = {"model": "m", "prompt": WORDS, "max_tokens": 6}
KINDS = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat stream": (
        "/v1/chat/completions",
        {**CHAT, "stream": True, "stream_options": {"include_usage": True}},
    ),
    "max_completion_tokens": ("/v1/chat/completions", {**CHAT, "max_completion_tokens": 4, "stream": True}),
    "min_tokens": ("/v1/chat/completions", {**CHAT, "min_tokens": 3}),
    "logprobs": ("/v1/chat/completions", {**CHAT, "response_format": {"type": "text"}, "stop": ["zzz"]}),
    "text": ("/v1/completions", TEXT),
    "text stream": ("/v1/completions", {**TEXT, "stream": True}),
    "n": ("/v1/completions", {**TEXT, "n": 2}),
}

WITHOUT_HANDOVER = {
    "responses": ("/v1/responses", {"model": "m", "input": WORDS, "max_output_tokens": 6}),
    "messages": ("/v1/messages", {"model": "m", "messages": CHAT["messages"], "max_tokens": 6}),
}
"""Of these the simulated engines read nothing but the prompt: they are for connectors that say nothing."""


class Engines:
    """One group: engines that prefill, engines that decode, and a client of the gateway before them."""

    def __init__(self, client, gateway, addresses):
        self.client, self.gateway, self.addresses = client, gateway, addresses

    async def protocol(self, role):
        """What the engines of a role have seen, and what of it was wrong."""
        seen, wrong = {}, {}
        for address in self.addresses[role]:
            async with httpx2.AsyncClient(base_url=address, verify=False) as client:
                found = (await client.get("/admin/protocol")).json()
            for name, count in found["seen"].items():
                seen[name] = seen.get(name, 0) + count
            wrong |= found["deviations"]
        return seen, wrong


@pytest.fixture
async def engines(start_gateway):
    """Starts engines and a gateway before them."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(connector, number=1, remote_tokens=0):
            engine = "sglang" if connector == "sglang" else "vllm"
            addresses, roles = {"prefill": [], "decode": []}, {}
            for place in range(2 * number):
                role = "prefill" if place < number else "decode"
                sock = listen("127.0.0.1", 0)
                second = listen("127.0.0.1", 0) if connector == "sglang" and role == "prefill" else None
                settings = ServerSettings(
                    engine=PROFILES["fast"].config,
                    models=("m",),
                    drain_s=0,
                    api=engine,
                    role=role if connector not in ("http", "lmcache") else "both",
                    check_protocol=True,
                )
                await stack.enter_async_context(running(settings, sock, second))
                port = sock.getsockname()[1]
                addresses[role].append(f"http://127.0.0.1:{port}")
                bootstrap_port = second.getsockname()[1] if second else 8998
                roles[routing.Endpoint(f"default/{role}-{place}", "127.0.0.1", port)] = routing.Role(
                    prefills=role == "prefill",
                    decodes=role == "decode",
                    group="g",
                    bootstrap_port=bootstrap_port,
                )
            gateway = await start_gateway(settings={"engine_metrics_enabled": False})
            phases = routing.PrefillDecode(connector=connector, roles=roles, remote_tokens=remote_tokens)
            key = api.ObjectRef("ModelServer", "default", "pool")
            gateway.serve([], engine="SGLang" if connector == "sglang" else "vLLM")
            pool = routing.Pool(key=key, endpoints=tuple(roles), phases=phases)
            models = gateway.shell.plane.snapshot.models
            gateway.shell.use(routing.Snapshot(models=models, pools={key: pool}))
            client = httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{gateway.port}", timeout=120, verify=False
            )
            await stack.enter_async_context(client)
            return Engines(client, gateway, addresses)

        yield start


def tokens(response):
    """How many were generated, by the usage of an answer or of its last event."""
    if response.headers["content-type"].startswith("text/event-stream"):
        events = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
        usages = [usage for event in events if (usage := json.loads(event).get("usage"))]
        return usages[-1]["completion_tokens"] if usages else None
    usage = response.json()["usage"]
    return usage["completion_tokens"] if "completion_tokens" in usage else usage["output_tokens"]


@pytest.mark.parametrize("connector", ["http", "lmcache", "nixl", "mooncake", "sglang"])
async def test_every_kind_of_request_keeps_to_the_protocol(engines, connector):
    """Each is served as its client asked, by both engines where that is possible, without a deviation."""
    some = await engines(connector)
    kinds = KINDS | (WITHOUT_HANDOVER if connector in ("http", "lmcache") else {})
    for kind, (path, body) in kinds.items():
        response = await some.client.post(path, json=body)
        assert response.status_code == 200, (kind, response.text)
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        limit = next(body[name] for name in names if name in body)
        assert tokens(response) in (None, limit * body.get("n", 1)), kind
    (prefill, wrong_prefill), (decode, wrong_decode) = (
        await some.protocol("prefill"),
        await some.protocol("decode"),
    )
    assert (wrong_prefill, wrong_decode) == ({}, {})
    apart = some.gateway.metric("headgate_gateway_prefill_decisions_total", decision="remote")
    assert apart == len(kinds) - (connector in ("nixl", "mooncake"))
    if connector in ("nixl", "mooncake"):
        assert (prefill["prompt sent"], decode["prompt received"]) == (apart, apart)
    await some.gateway.idle()


@pytest.mark.parametrize("connector", ["nixl", "sglang"])
async def test_many_at_once_keep_to_the_protocol(engines, connector):
    """Pairs of any two engines, streams and not, and clients that leave."""
    some = await engines(connector, number=2)

    async def one(place):
        body = {
            **CHAT,
            "stream": place % 2 == 0,
            "messages": [{"role": "user", "content": f"{place} {WORDS}"}],
        }
        if place % 7:
            return (await some.client.post("/v1/chat/completions", json=body)).status_code
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(some.client.post("/v1/chat/completions", json=body), 0.002)
        return 200

    assert set(await asyncio.gather(*(one(place) for place in range(40)))) == {200}
    await some.gateway.idle()
    assert (await some.protocol("prefill"))[1] == (await some.protocol("decode"))[1] == {}
    assert some.gateway.metric("headgate_gateway_attempts_failed_total") == 0


async def test_a_conversation_goes_on_where_its_cache_is(engines):
    """Its next turn is mostly in the cache of the engine that decoded the last: it prefills the rest."""
    some = await engines("nixl", number=2, remote_tokens=256)
    first = await some.client.post("/v1/chat/completions", json=CHAT)
    turns = [*CHAT["messages"], first.json()["choices"][0]["message"], {"role": "user", "content": "And?"}]
    second = await some.client.post("/v1/chat/completions", json={**CHAT, "messages": turns})
    assert second.status_code == 200
    decisions = "headgate_gateway_prefill_decisions_total"
    assert some.gateway.metric(decisions, decision="remote") == 1
    assert some.gateway.metric(decisions, decision="cached") == 1


@pytest.mark.parametrize(("connector", "learned"), [("nixl", 2), ("sglang", 0)])
async def test_how_long_caches_take_to_come_is_learned(engines, connector, learned):
    """From streamed answers, unless both engines are asked at once, when the prefill is in the wait too."""
    some = await engines(connector)
    for stream in (True, True, False):
        answer = await some.client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
        assert answer.status_code == 200
    await some.gateway.idle()
    (pool,) = some.gateway.shell.plane.pools.values()
    assert pool.rates.pool.handovers == learned
