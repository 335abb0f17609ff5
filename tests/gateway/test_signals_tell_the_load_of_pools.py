"""The signals of a pool: requests running and waiting, arrivals, work, idle time and missed objectives."""

import asyncio
import json

import httpx2
import pytest

from headgate.fleet.reading import EngineReading
from headgate.gateway import gauges, pages
from headgate.requests import paths, pool_signals, traffic

PREFIX = "headgate_gateway_pool_"
WAITS = {
    "queue_enabled": True,
    "queue_detector": "concurrency-detector",
    "queue_max_in_flight": 1,
    "queue_no_endpoint_wait_s": 60,
}


async def signals(gateway) -> pool_signals.PoolSignals:
    """Of the only pool, as the worker's page has them."""
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        response = await client.get("/signals")
    assert response.status_code == 200
    (pool,) = json.loads(response.content)["pools"]
    told = pool_signals.of_pool(*_pool(gateway), gateway.shell.now())
    assert pool["name"] == told.name == "pool"
    assert pool["requests_running"] == told.requests_running
    return told


def _pool(gateway):
    (pool,) = gateway.shell.plane.pools.values()
    return pool, gateway.shell.queues.of(pool)


def sweep(gateway, *, after_s: float) -> None:
    """Moves time on, with a sweep each second."""
    for _ in range(round(after_s)):
        gateway.move(1)
        gateway.shell.plane.sweep(gateway.shell.now())


async def test_requests_are_running_waiting_and_over(start_gateway, endpoint, eventually):
    """Each counts once: at its endpoint, or in the queue; idle time begins with the end of the last."""
    gateway = await start_gateway(endpoint, settings=WAITS)
    told = await signals(gateway)
    assert (told.requests_running, told.requests_waiting, told.endpoints) == (0, 0, 1)
    assert told.idle_s is not None
    assert told.work_seconds == 0
    clients = [await gateway.connect() for _ in range(3)]
    for client in clients:
        client.post({"model": "m", "prompt": "hello " * 100, "max_tokens": 50})
    first = await endpoint.call()
    await eventually(lambda: gateway.shell.queues.held == 2)
    told = await signals(gateway)
    assert (told.requests_running, told.requests_waiting) == (1, 2)
    assert told.waiting_for_endpoints == 0
    assert told.idle_s is None
    assert told.arrivals > 0
    all_three = told.work_seconds
    clients[2].close()
    await eventually(lambda: gateway.shell.queues.held == 1)
    two = (await signals(gateway)).work_seconds
    assert 0 < two < all_three
    first.answer(b"{}")
    await clients[0].response()
    (await endpoint.call()).answer(b"{}")
    await clients[1].response()
    told = await signals(gateway)
    assert (told.requests_running, told.requests_waiting) == (0, 0)
    assert 0 < told.work_seconds < two, "what has arrived lately may do so again"
    assert told.idle_s < 30
    sweep(gateway, after_s=traffic.WINDOW_S + 2)
    assert (await signals(gateway)).work_seconds == 0
    gateway.move(100)
    assert (await signals(gateway)).idle_s >= 100


async def test_a_prompt_that_an_endpoint_works_on_is_no_backlog(gateway, endpoint):
    """It counts as what has arrived, and so does one that shares a step with it; what waits behind it counts
    besides."""
    sweep(gateway, after_s=20)
    pool, _ = _pool(gateway)

    async def post(words: int) -> float:
        client = await gateway.connect()
        client.post({"model": "m", "prompt": "hello " * words, "stream": True, "max_tokens": 50})
        await endpoint.call()
        recent = pool.traffic.recent(gateway.shell.now())
        costs = pool_signals.TokenCosts.of(pool)
        arriving = costs.seconds(recent.prompt_tokens_per_s, recent.output_tokens_per_s)
        return (await signals(gateway)).work_seconds / arriving

    assert await post(words=1_000) == pytest.approx(1.0, rel=0.1)
    assert await post(words=100) == pytest.approx(1.0, rel=0.1)
    assert (await signals(gateway)).unbegun_tokens == 0
    assert await post(words=20_000) > 2
    assert 15_000 < (await signals(gateway)).unbegun_tokens < 30_000


async def test_arrivals_are_counted_over_fifteen_seconds(gateway, endpoint):
    """Whether they were served or not; then they are over."""
    endpoint.behave = lambda call: call.answer(b"{}")
    sweep(gateway, after_s=20)
    for _ in range(30):
        await gateway.ask()
    told = await signals(gateway)
    assert 1.5 < told.arrivals <= 2.01
    assert told.idle_s is not None
    sweep(gateway, after_s=traffic.WINDOW_S + 2)
    assert (await signals(gateway)).arrivals == 0


async def test_requests_outlive_changes_of_their_pool(gateway, endpoint):
    """A new snapshot of the pool goes on with its counts, and its end makes them end."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    gateway.serve([endpoint], timeout_s=60.0)
    assert (await signals(gateway)).requests_running == 1
    call.answer(b"{}")
    await client.response()
    assert (await signals(gateway)).requests_running == 0
    assert (await signals(gateway)).arrivals > 0


async def test_requests_that_limits_refuse_are_no_load(gateway, endpoint):
    """Neither are requests for other models."""
    assert (await gateway.ask({"model": "other", "prompt": "x"})).status == 404
    told = await signals(gateway)
    assert (told.arrivals, told.requests_running) == (0, 0)


async def test_requests_that_wait_for_an_endpoint_are_told(start_gateway, endpoint, eventually):
    """And whoever asked to know is called at once, at most once a second."""
    gateway = await start_gateway(endpoint, settings=WAITS)
    heard = []
    gateway.shell.queues.on_starved(lambda: heard.append(1))
    gateway.serve([])
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post()
    await eventually(lambda: gateway.shell.queues.held == 2 and heard)
    told = await signals(gateway)
    assert (told.endpoints, told.waiting_for_endpoints, told.requests_waiting) == (0, 2, 2)
    assert told.requests_running == 0
    assert told.work_seconds > 0, "by the rates that are assumed before any were learned"
    assert len(heard) == 1
    for client in clients:
        client.close()
    await eventually(lambda: not gateway.shell.queues.held)
    loop = asyncio.get_running_loop()
    gateway.shell.services.now = lambda: loop.time() + 2.0
    clients = [await gateway.connect()]
    clients[0].post()
    await eventually(lambda: len(heard) == 2)
    endpoint.behave = lambda call: call.answer(b"{}")
    gateway.serve([endpoint])
    for client in clients:
        assert (await client.response()).status == 200
    assert (await signals(gateway)).waiting_for_endpoints == 0


async def test_objectives_for_first_tokens_are_judged(gateway, endpoint):
    """Only of streams that have one; one that is never answered has missed it."""
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]

    async def ask(after_s: float, *, stream: bool = True, status: str = "200 OK", **headers: str) -> None:
        client = await gateway.connect()
        client.post({"model": "m", "stream": stream}, **headers)
        call = await endpoint.call()
        at[0] += after_s
        call.answer(b"data: {}\n\n", status)
        await client.response()
        client.close()

    async def counts() -> tuple[int, int]:
        told = await signals(gateway)
        return told.slo_requests, told.slo_misses

    await ask(9)
    await ask(9, stream=False, x_slo_ttft_ms="500")
    await ask(9, x_slo_ttft_ms="soon")
    assert await counts() == (0, 0)
    await ask(0.4, x_slo_ttft_ms="500")
    assert await counts() == (1, 0)
    await ask(0.6, x_slo_ttft_ms="500")
    await ask(0.6, x_llm_d_slo_ttft_ms="500")
    assert await counts() == (3, 2)
    await ask(0.6, status="400 Bad Request", x_slo_ttft_ms="500")
    assert await counts() == (3, 2)
    client = await gateway.connect()
    client.post({"model": "m", "stream": True}, x_slo_ttft_ms="500")
    await endpoint.call()
    at[0] += 5
    client.close()
    await gateway.idle()
    assert await counts() == (4, 3)
    assert "x-slo-ttft-ms" in {name for call in endpoint.calls for name, _ in call.headers}


STREAM = b'data: {"choices":[{"text":"a"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}\n\n'


async def test_tokens_are_timed_from_sending_on(start_gateway, endpoint, eventually):
    """Without the time in the queue of the gateway, and only those of streams that were served to their end.
    Whether requests wait in the engine is told as well."""
    gateway = await start_gateway(endpoint, settings=WAITS)
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]
    pool, _ = _pool(gateway)
    (load,) = pool.loads

    async def serve(client, *, stream: bool = True, usage: bytes = USAGE) -> None:
        call = await endpoint.call()
        at[0] += 0.3
        call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        call.write(b"%x\r\n%s\r\n" % (len(STREAM), STREAM))
        if stream:
            await client.head()
        else:
            await eventually(lambda: load.decoding == 1)
        at[0] += 0.8
        call.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(usage), usage))
        await eventually(lambda: not load.requests)

    async def times(stream: bool = True, **how: bytes) -> tuple[float, ...]:
        client = await gateway.connect()
        client.post({"model": "m", "stream": stream})
        await serve(client, stream=stream, **how)
        client.close()
        return (await signals(gateway)).times

    assert await times() == pytest.approx((1, 0.3, 4, 0.8, 1)), (
        "the engine has not told whether requests wait"
    )
    for waiting, kv_usage, queued in ((0, 0.2, 1), (2, 0.2, 1), (3, 0.2, 2), (1, 0.95, 3)):
        load.read(EngineReading(at=at[0], running=8, waiting=waiting, kv_usage=kv_usage))
        assert (await times())[-1] == queued
    load.read(EngineReading(at=at[0], running=0, waiting=0))
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post({"model": "m", "stream": True})
    await eventually(lambda: gateway.shell.queues.held == 1)
    at[0] += 5
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    await serve(clients[1])
    assert (await signals(gateway)).times == pytest.approx((6, 1.8, 24, 4.8, 3))
    await times(stream=False)
    await times(usage=b"data: [DONE]\n\n")
    await times(usage=USAGE.replace(b":5", b":1"))
    assert (await signals(gateway)).times == pytest.approx((6, 1.8, 24, 4.8, 3))
    sweep(gateway, after_s=traffic.WINDOW_S + 2)
    assert (await signals(gateway)).times == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("usages", [(), (0.2,), (0.2, 0.6)])
async def test_the_usage_of_caches_is_a_mean(start_gateway, start_endpoint, usages):
    """Over the engines that report it; unknown if none does."""
    endpoints = [await start_endpoint() for _ in range(3)]
    gateway = await start_gateway(*endpoints)
    pool, _ = _pool(gateway)
    for load, usage in zip(pool.loads, usages, strict=False):
        load.read(EngineReading(at=gateway.shell.now(), kv_usage=usage, waiting=0, running=0))
    told = await signals(gateway)
    assert told.kv_usage == (pytest.approx(sum(usages) / len(usages)) if usages else None)


async def test_prometheus_reads_the_same(start_gateway, endpoint, eventually):
    gateway = await start_gateway(endpoint, settings=WAITS)
    gauges.add_gauges(gateway.registry, gateway.shell)
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post({"model": "m", "stream": True}, x_slo_ttft_ms="600000")
    call = await endpoint.call()
    await eventually(lambda: gateway.shell.queues.held == 1)

    def told(name: str, **labels: str) -> float:
        return gateway.metric(f"{PREFIX}{name}", pool="default/pool", **labels)

    assert (told("requests_running"), told("requests_waiting"), told("arrivals_total")) == (1, 1, 2)
    shown = await signals(gateway)
    mean = shown.output_tokens / shown.arrivals
    assert told("output_tokens_total") / told("arrivals_total") == pytest.approx(mean)
    assert told("cached_prompt_tokens_total") == 0
    assert told("work_seconds") == pytest.approx((await signals(gateway)).work_seconds, rel=0.1)
    before = told("last_request_timestamp_seconds")
    call.answer(b"data: {}\n\n")
    await clients[0].response()
    (await endpoint.call()).answer(b"data: {}\n\n")
    await clients[1].response()
    assert (told("requests_running"), told("requests_waiting"), told("arrivals_total")) == (0, 0, 2)
    assert told("first_token_objectives_total", result="met") == 2
    assert told("first_token_objectives_total", result="missed") == 0
    gateway.move(3600)
    await asyncio.sleep(0)
    assert told("last_request_timestamp_seconds") < before - 3000


@pytest.mark.parametrize(
    ("path", "tokens"),
    [("/v1/embeddings", 1), ("/v1/rerank", 1), ("/v1/completions", 250), ("/generate", 250)],
)
async def test_only_paths_that_generate_tokens_count_for_them(gateway, endpoint, path, tokens):
    """A model that only embeds is not taken for one that writes."""
    endpoint.behave = lambda call: call.answer(b"{}")
    assert (await gateway.ask({"model": "m", "input": "hello"}, path)).status == 200
    pool, _ = _pool(gateway)
    assert pool.traffic.output_tokens == tokens
    assert pool.traffic.prompt_tokens > 0


def test_paths_without_output_are_among_those_that_are_forwarded():
    assert paths.WITHOUT_OUTPUT < paths.DEFAULT


async def test_tokens_of_requests_are_told(gateway, endpoint, eventually):
    """Those of prompts with what caches have of them, for requests that were sent at once and that waited."""
    sweep(gateway, after_s=20)
    prompt = "hello " * 2_000
    for _ in range(2):
        client = await gateway.connect()
        client.post({"model": "m", "prompt": prompt, "max_tokens": 50})
        (await endpoint.call()).answer(b"{}")
        await client.response()
    told = await signals(gateway)
    assert told.output_tokens / told.arrivals == pytest.approx(50)
    tokens = told.prompt_tokens / told.arrivals
    assert 1_000 < tokens < 20_000
    assert 0.4 < told.cached_tokens / told.prompt_tokens <= 0.5, "the second prompt is cached"
    sweep(gateway, after_s=traffic.WINDOW_S + 2)
    told = await signals(gateway)
    assert (told.prompt_tokens, told.cached_tokens, told.output_tokens) == (0, 0, 0)
