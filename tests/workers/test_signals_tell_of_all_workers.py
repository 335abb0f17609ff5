"""`/signals` adds up what all workers know of a pool, and whoever follows it hears at once of a pool without
endpoints."""

import asyncio
import contextlib
import json
import os
import signal
import time

import httpx2
import pytest

from headgate.api import ObjectRef
from headgate.observe.signals import Signals

M = ObjectRef("ModelServer", "default", "m")


@pytest.fixture
async def follow():
    """Follows gateways; gives their signals."""
    async with asyncio.TaskGroup() as tasks:
        running = []

        def start(*gateways) -> Signals:
            signals = Signals()
            signals.use([base(gateway) for gateway in gateways])
            running.append(tasks.create_task(signals.run()))
            return signals

        yield start
        for task in running:
            task.cancel()


def base(gateway) -> str:
    return gateway.metrics_url.removesuffix("/metrics")


def completion(model: str) -> bytes:
    body = json.dumps({"model": model, "prompt": "hello", "stream": True}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def test_requests_at_all_workers_are_added_up(start_gateway, connect, engine, follow, eventually):
    """Twenty streams over two workers of one gateway and one of another are twenty; afterwards the pool is
    idle."""
    gateways = [await start_gateway("--workers", "2"), await start_gateway("--workers", "1")]
    signals = follow(*gateways)
    await eventually(lambda: signals.of(M).is_known)
    load = signals.of(M)
    assert load.metrics["headgate:requests_in_flight"] == 0
    assert load.idle_s is not None
    assert load.endpoints == 2
    engine.hold.set()
    try:
        for number in range(20):
            _, writer = await connect(gateways[number % 2])
            writer.write(completion("m"))
        await eventually(lambda: signals.of(M).metrics.get("headgate:requests_running") == 20)
        load = signals.of(M)
        assert load.idle_s is None
        assert load.metrics["headgate:requests_waiting"] == 0
        assert load.metrics["headgate:arrivals"] > 0
        assert load.metrics["headgate:work_seconds"] > 0

        def has_ten() -> bool:
            page = httpx2.get(f"{base(gateways[0])}/signals", trust_env=False).json()
            (pool,) = [each for each in page["pools"] if each["name"] == "m"]
            return pool["requests_running"] == 10 and not page.get("no_answer")

        await eventually(has_ten)
    finally:
        engine.hold.clear()
    await eventually(lambda: signals.of(M).idle_s is not None)
    await eventually(lambda: signals.of(M).metrics.get("headgate:work_seconds") == 0)


async def test_means_are_of_all_requests_and_tokens(start_gateway, connect, engine, follow, eventually):
    """Whichever worker and gateway had them: sums and counts are added up, not means."""
    gateways = [await start_gateway("--workers", "2"), await start_gateway("--workers", "1")]
    signals = follow(*gateways)
    await eventually(lambda: signals.of(M).is_known)
    assert "headgate:ttft_seconds" not in signals.of(M).metrics
    engine.hold.set()
    try:
        for number in range(20):
            _, writer = await connect(gateways[number % 5 == 0])
            writer.write(completion("m"))
        await eventually(lambda: signals.of(M).metrics.get("headgate:requests_running") == 20)
        await asyncio.sleep(0.2)
    finally:
        engine.hold.clear()
    await eventually(lambda: signals.of(M).times.requests == 20)
    load = signals.of(M)
    pages = [httpx2.get(f"{base(each)}/signals", trust_env=False).json() for each in gateways]
    own = [pool for page in pages for pool in page["pools"] if pool["name"] == "m"]
    assert sorted(each["timed_requests"] for each in own) == [4, 16]
    assert load.times.tokens == 20 * 4
    assert load.times.queued == 20, "this engine has no page that tells"
    assert load.metrics["headgate:ttft_seconds"] == pytest.approx(
        sum(each["ttft_sum_s"] for each in own) / 20
    )
    assert load.metrics["headgate:itl_seconds"] == pytest.approx(
        sum(each["tokens_sum_s"] for each in own) / 80
    )
    assert load.times.tokens_s > 20 * 0.2


async def test_a_gateway_that_does_not_answer_makes_the_load_unknown(start_gateway, follow, eventually):
    """Neither idle nor busy is told; what the other gateways know is a lower bound."""
    one, other = await start_gateway("--workers", "1"), await start_gateway("--workers", "2")
    signals = follow(one, other)
    await eventually(lambda: signals.of(M).is_known)
    other.process.send_signal(signal.SIGSTOP)
    try:
        await eventually(lambda: any(base(other) in each for each in signals.of(M).missing))
        load = signals.of(M)
        assert not load.is_known
        assert load.metrics == {}
        assert load.idle_s is None
        await eventually(lambda: signals.of(M).lower_bounds.get("headgate:requests_in_flight") == 0)
    finally:
        other.process.send_signal(signal.SIGCONT)
    await eventually(lambda: signals.of(M).is_known)
    stuck = other.workers()[0]
    os.kill(stuck, signal.SIGSTOP)
    try:
        await eventually(lambda: any("worker" in each for each in signals.of(M).missing))
        assert not signals.of(M).is_known
    finally:
        os.kill(stuck, signal.SIGKILL)
    await eventually(lambda: signals.of(M).is_known)
    signals.use([base(one)])
    other.process.kill()
    await eventually(lambda: signals.of(M).is_known)  # who need not answer is not waited for


async def test_requests_for_a_pool_without_endpoints_are_told_at_once(
    start_gateway, connect, client, model_server, model_route, follow, eventually
):
    """Before the next line would be due, from any worker."""
    await client.apply_manifest(model_server("none", {"app": "none"}, 1), field_manager="test")
    await client.apply_manifest(model_route("none", "none"), field_manager="test")
    gateway = await start_gateway("--workers", "2", "--queue-no-endpoint-wait-s", "60")
    signals = follow(gateway)
    pool = ObjectRef("ModelServer", "default", "none")
    heard: asyncio.Queue[ObjectRef] = asyncio.Queue()
    signals.on_starved = heard.put_nowait
    await eventually(lambda: signals.of(pool).is_known)
    assert signals.of(pool).endpoints == 0
    delays = []
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=30) as http,
        http.stream("GET", f"{base(gateway)}/signals", params={"watch": "1"}) as response,
    ):
        lines = response.aiter_lines()
        # A machine that is busy may be late many times.
        while len(delays) < 30 and sum(delay < 0.7 for delay in delays) < 2:
            await anext(lines)
            began = time.monotonic()  # the next line is due in a second
            _, writer = await connect(gateway)
            writer.write(completion("none"))
            while waiting(json.loads(await anext(lines)), "none") != 1:
                pass
            delays.append(time.monotonic() - began)
            async with asyncio.timeout(30):
                assert await heard.get() == pool
            assert signals.starved() == {pool}
            assert signals.of(pool).waiting_for_endpoints == 1
            writer.transport.abort()
            while waiting(json.loads(await anext(lines)), "none"):
                pass
            await eventually(lambda: not signals.starved())
    assert sorted(delays)[1] < 0.7, delays


def waiting(page, pool: str) -> int:
    """Requests that wait for an endpoint of a pool."""
    return sum(each["waiting_for_endpoints"] for each in page["pools"] if each["name"] == pool)


async def test_a_pool_with_a_request_is_never_idle_whatever_is_replaced(
    start_gateway, connect, engine, follow, eventually
):
    """An upgrade replaces the supervisor and each worker, and a worker is killed: the stream that goes on is
    always known, or nothing is."""
    gateway = await start_gateway("--workers", "2")
    signals = follow(gateway)
    await eventually(lambda: signals.of(M).is_known)
    engine.hold.set()
    seen = []

    async def look() -> None:
        while True:
            seen.append(signals.of(M))
            await asyncio.sleep(0.01)

    try:
        _, writer = await connect(gateway)
        writer.write(completion("m"))
        await eventually(lambda: signals.of(M).metrics.get("headgate:requests_running") == 1)
        looking = asyncio.create_task(look())
        before = set(gateway.workers())
        gateway.signal(signal.SIGUSR2)
        await eventually(lambda: len(new := set(gateway.workers())) == 2 and not new & before)
        os.kill(gateway.workers()[0], signal.SIGKILL)
        await eventually(lambda: len(set(gateway.workers()) - before) == 2)
        await eventually(lambda: signals.of(M).is_known)
        looking.cancel()
    finally:
        engine.hold.clear()
    assert any(load.is_known for load in seen)
    for load in seen:
        assert load.idle_s is None, load
        assert not load.is_known or load.metrics["headgate:requests_running"] == 1, load
    await eventually(lambda: signals.of(M).idle_s is not None)


async def test_watches_are_limited(start_gateway, follow, eventually):
    """More than the limit are refused, and whoever leaves makes place."""
    gateway = await start_gateway("--workers", "1")
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http, contextlib.AsyncExitStack() as open_:
        for _ in range(16):
            response = await open_.enter_async_context(
                http.stream("GET", f"{base(gateway)}/signals", params={"watch": "1"})
            )
            assert response.status_code == 200
        refused = await http.get(f"{base(gateway)}/signals", params={"watch": "1"})
        assert refused.status_code == 503
        assert "16 watches" in refused.json()["message"]
        wrong = await http.get(f"{base(gateway)}/signals", params={"watch": "maybe"})
        assert wrong.status_code == 400
        await open_.aclose()
    signals = follow(gateway)
    await eventually(lambda: signals.of(M).is_known)
