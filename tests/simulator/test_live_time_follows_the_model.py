import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from headgate.simulator.model import StepCosts
from headgate.simulator.server.live import Ask, LiveEngine
from headgate.simulator.server.metrics import Timings

COSTS = StepCosts(base_s=0.01, per_decode_sequence_s=0.001, per_kv_token_s=0.0001, per_prefill_token_s=0.0005)
TTFT_S = 0.01 + 10 * 0.0005
TPOT_S = [0.011 + tokens * 0.0001 for tokens in range(10, 14)]


@contextlib.asynccontextmanager
async def running(live: LiveEngine) -> AsyncIterator[LiveEngine]:
    """Steps it until the block ends."""
    stepping = asyncio.create_task(live.run())
    yield live
    stepping.cancel()
    await asyncio.wait([stepping])


def five_tokens() -> Ask:
    return Ask(prompt=[1] * 10, blocks=(), output_tokens=5, finish_reason="length")


def test_tokens_come_when_their_steps_end(in_virtual_time, small_engine):
    """Each token is told at the time of the model, not before and not with others."""

    async def story(loop):
        async with running(LiveEngine(small_engine(costs=COSTS), Timings(64), loop.time)) as live:
            began = loop.time()
            ticket = live.submit([five_tokens()], every_token=True)
            told = []
            while ticket.unfinished:
                await ticket.changed()
                told.append(loop.time() - began)
            return told

    due = [TTFT_S + sum(TPOT_S[:tokens]) for tokens in range(5)]
    assert in_virtual_time(story) == pytest.approx(due, abs=1e-9)


@pytest.mark.parametrize("stall_s", [0.004, 0.049])
def test_times_are_the_models(in_virtual_time, small_engine, stall_s):
    """No jitter is in them: neither a loop that hears late of a request, nor timers that fire late."""

    async def story(loop):
        timings = Timings(64)
        async with running(LiveEngine(small_engine(costs=COSTS), timings, loop.time)) as live:
            await asyncio.sleep(1)
            ticket = live.submit([five_tokens()], every_token=False)
            loop.stall(stall_s)
            loop.call_later(TTFT_S, loop.stall, stall_s)
            await ticket.changed()
        return timings

    timings = in_virtual_time(story)
    assert timings.queue.sum == 0
    assert (timings.ttft.sum, timings.prefill.sum) == pytest.approx((TTFT_S, TTFT_S))
    assert (timings.decode.sum, timings.inter_token.sum) == pytest.approx((sum(TPOT_S), sum(TPOT_S)))
    assert timings.e2e.sum == pytest.approx(TTFT_S + sum(TPOT_S))


def test_an_idle_engine_sleeps(in_virtual_time, small_engine):
    """Without requests no step is taken, and the engine's loop is not scheduled."""

    async def story(loop):
        async with running(LiveEngine(small_engine(costs=COSTS), Timings(64), loop.time)) as live:
            before = loop.waits
            await asyncio.sleep(3600)
            return loop.waits - before, live.statistics().steps_total

    assert in_virtual_time(story) == (1, 0)


async def test_tokens_are_streamed_as_they_come(serve, fast):
    """Over HTTP, tokens are read while the engine still has most of a minute to go."""
    costs = StepCosts(base_s=0.005, per_decode_sequence_s=0.0, per_kv_token_s=0.0, per_prefill_token_s=0.0)
    body = {"model": "tiny", "prompt": "x", "max_tokens": 10_000, "stream": True}
    async with serve(engine=fast(costs=costs)) as server:
        began = time.monotonic()
        async with server.client.stream("POST", "/v1/completions", json=body) as response:
            lines = response.aiter_lines()
            for _ in range(20):
                assert (await anext(lines)).startswith("data: ")
                assert await anext(lines) == ""
            assert server.live.statistics().running == 1
        assert time.monotonic() - began >= 20 * 0.005


async def test_many_streams_share_the_steps(serve):
    """Many streams at once all get every token, in steps that serve all of them."""
    body = {"model": "tiny", "prompt": "x", "max_tokens": 20, "stream": True}
    async with serve() as server:
        responses = await asyncio.gather(
            *(server.client.post("/v1/completions", json=body) for _ in range(60))
        )
        statistics = server.live.statistics()
    assert {response.text.count("data: ") for response in responses} == {21}
    assert statistics.output_tokens_total == 1200
    assert statistics.steps_total < 1200
