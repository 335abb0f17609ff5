"""GET /drain responds when the engine has nothing left to do, and not before."""

import asyncio
import signal

COMPLETION = {"model": "tiny", "prompt": "x", "max_tokens": 400, "ignore_eos": True}
SLOW = ("--inter-token-latency", "20ms")


async def running(engine):
    page = (await engine.client.get("/metrics")).text
    return 'vllm:num_requests_running{engine="0",model_name="tiny"} 1.0' in page


async def test_all_callers_wait_until_requests_are_complete(engine, sidecar, eventually):
    """Several hooks at once get their responses after that of the request."""
    served = await engine(*SLOW)
    beside = await sidecar(served)
    order = []

    async def note(name, awaitable):
        response = await awaitable
        order.append(name)
        return response

    asking = asyncio.ensure_future(note("request", served.client.post("/v1/completions", json=COMPLETION)))
    await eventually(lambda: running(served))
    hooks = await asyncio.gather(*(note("hook", beside.client.get("/drain")) for _ in range(3)))
    assert [(each.status_code, each.json()) for each in hooks] == [(200, {"engine": "idle"})] * 3
    assert (await asking).json()["usage"]["completion_tokens"] == 400
    assert order == ["request", "hook", "hook", "hook"]


async def test_an_engine_that_is_killed_ends_the_wait(engine, sidecar, eventually):
    """It has no requests any more, and nothing can be asked of it."""
    served = await engine(*SLOW)
    beside = await sidecar(served)
    asking = asyncio.ensure_future(served.client.post("/v1/completions", json=COMPLETION))
    await eventually(lambda: running(served))
    hook = asyncio.ensure_future(beside.client.get("/drain"))

    async def is_waiting():
        return "headgate_runtime_drain_waiting 1" in (await beside.client.get("/metrics")).text

    await eventually(is_waiting)
    await served.kill()
    assert (await hook).json() == {"engine": "gone"}
    await asyncio.gather(asking, return_exceptions=True)


async def test_the_wait_has_an_end(engine, sidecar, eventually):
    """After --drain-timeout, the response says that the engine is still busy."""
    served = await engine(*SLOW)
    beside = await sidecar(served, "--drain-timeout", "0.5")
    asking = asyncio.ensure_future(served.client.post("/v1/completions", json=COMPLETION))
    await eventually(lambda: running(served))
    hook = await beside.client.get("/drain")
    assert (hook.status_code, hook.json()) == (503, {"engine": "late"})
    assert not asking.done()
    await served.kill()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_sidecar_that_is_stopped_early_goes_on_serving_hooks(engine, sidecar, eventually):
    """Where all containers are stopped together, the engine's hook still finds it; then it ends by itself."""
    served = await engine(*SLOW)
    beside = await sidecar(served)
    asking = asyncio.ensure_future(served.client.post("/v1/completions", json=COMPLETION))
    await eventually(lambda: running(served))
    beside.signal(signal.SIGTERM)
    hook = await beside.client.get("/drain")
    assert (hook.status_code, hook.json()) == (200, {"engine": "idle"})
    assert (await asking).status_code == 200
    assert await beside.ended() == 0


async def test_a_sidecar_of_an_engine_that_is_gone_ends_at_once(engine, sidecar):
    """As the native sidecar of a Pod: it is stopped after the engine."""
    served = await engine()
    beside = await sidecar(served)
    await served.kill()
    beside.signal(signal.SIGTERM)
    assert await beside.ended() == 0


async def test_a_second_signal_ends_it(engine, sidecar, eventually):
    """Whatever the engine does."""
    served = await engine(*SLOW)
    beside = await sidecar(served)
    asking = asyncio.ensure_future(served.client.post("/v1/completions", json=COMPLETION))
    await eventually(lambda: running(served))
    beside.signal(signal.SIGTERM)

    async def is_ending():
        return "headgate_runtime_drain_waiting 1" in (await beside.client.get("/metrics")).text

    await eventually(is_ending)
    beside.signal(signal.SIGTERM)
    assert await beside.ended() == -signal.SIGTERM
    await served.kill()
    await asyncio.gather(asking, return_exceptions=True)
