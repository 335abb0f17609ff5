import asyncio
import time

from headgate.simulator.model import StepCosts


async def test_tokens_arrive_when_their_steps_end(serve, small_engine):
    """Forty steps of 5 ms take 200 ms of real time, and the tokens come one by one on the way."""
    costs = StepCosts(base_s=0.005, per_decode_sequence_s=0.0, per_kv_token_s=0.0, per_prefill_token_s=0.0)
    body = {"model": "tiny", "prompt": "x", "max_tokens": 40, "stream": True}
    async with serve(engine=small_engine(costs=costs)) as server:
        started = time.monotonic()
        async with server.client.stream("POST", "/v1/completions", json=body) as response:
            arrivals = [time.monotonic() - started async for _ in response.aiter_bytes()]
    assert arrivals[0] < arrivals[-1] / 2
    assert 0.195 <= arrivals[-1] < 1.0
    assert len(arrivals) > 20


async def test_an_idle_engine_sleeps(serve):
    """Without requests no step is taken and the engine's loop is not scheduled."""
    async with serve() as server:
        before = server.live.statistics().steps_total
        cpu = time.process_time()
        await asyncio.sleep(0.1)
        assert server.live.statistics().steps_total == before == 0
        assert time.process_time() - cpu < 0.05


async def test_many_streams_share_the_steps(serve):
    """Three hundred streams at once all get every token, in steps that serve all of them."""
    body = {"model": "tiny", "prompt": "x", "max_tokens": 20, "stream": True}
    async with serve() as server:
        responses = await asyncio.gather(
            *(server.client.post("/v1/completions", json=body) for _ in range(300))
        )
        statistics = server.live.statistics()
    assert {response.text.count("data: ") for response in responses} == {21}
    assert statistics.output_tokens_total == 6000
    assert statistics.steps_total < 6000
