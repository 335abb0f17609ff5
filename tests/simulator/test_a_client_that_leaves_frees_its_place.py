import asyncio

import msgspec
import pytest


@pytest.mark.parametrize("stream", [True, False])
async def test_disconnect_cancels_at_once(serve, eventually, slow_engine, stream):
    """Streamed or not, the request leaves the engine when its client does, in the middle of a step."""
    body = {"model": "tiny", "prompt": "x", "max_tokens": 10, "stream": stream}
    async with serve(engine=slow_engine) as server:
        asking = asyncio.ensure_future(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().running == 1)
        asking.cancel()
        await eventually(lambda: server.live.statistics().finished_total == 1)
        statistics = server.live.statistics()
        assert (statistics.running, statistics.waiting, statistics.kv_blocks_used) == (0, 0, 0)
        page = (await server.client.get("/metrics")).text
        assert 'finished_reason="abort",model_name="tiny"} 1.0' in page


async def test_a_waiting_request_leaves_the_queue(serve, eventually, slow_engine):
    """A client that leaves before its first step frees its place in the queue, all choices of it."""
    body = {"model": "tiny", "prompt": ["x", "y"], "n": 2}
    async with serve(engine=slow_engine) as server:
        first = asyncio.ensure_future(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().running == 4)
        second = asyncio.ensure_future(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().waiting == 4)
        second.cancel()
        await eventually(lambda: server.live.statistics().waiting == 0)
        assert server.live.statistics().running == 4
        first.cancel()


async def test_a_full_queue_is_a_429(serve, eventually, slow_engine):
    """One request runs, one waits, the third is told to come back; of several choices none is taken."""
    engine = msgspec.structs.replace(slow_engine, max_num_seqs=1, max_waiting=1)
    body = {"model": "tiny", "prompt": "x"}
    async with serve(engine=engine) as server, asyncio.TaskGroup() as group:
        asking = [group.create_task(server.client.post("/v1/completions", json=body))]
        await eventually(lambda: server.live.statistics().running == 1)
        refused = await server.client.post("/v1/completions", json=body | {"n": 2})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["type"] == "RateLimitError"
        assert "queue is full" in refused.json()["error"]["message"]
        assert server.live.statistics().waiting == 0
        asking.append(group.create_task(server.client.post("/v1/completions", json=body)))
        await eventually(lambda: server.live.statistics().waiting == 1)
        for task in asking:
            task.cancel()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stop_tells_the_clients(serve, eventually, slow_engine, stream):
    """What is in flight when the drain time is over gets an error: a 503, or an error event in its stream."""
    body = {"model": "tiny", "prompt": "x", "stream": stream}
    async with serve(engine=slow_engine) as server:
        asking = asyncio.ensure_future(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().running == 1)
        server.live.cancel_all()
        response = await asking
    assert "The engine stopped" in response.text
    assert response.status_code == (200 if stream else 503)
    assert response.text.endswith("data: [DONE]\n\n") == stream
