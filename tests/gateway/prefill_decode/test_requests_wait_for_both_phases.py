"""Requests are queued while either the prefill or the decode endpoints have no capacity."""

import json

ROOM_FOR_ONE = {"queue_detector": "concurrency-detector", "queue_max_in_flight": 1}


def chat(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 20}


async def test_a_busy_prefill_is_waited_for(split, eventually):
    """F18: the endpoints that decode are idle, and the request is held all the same."""
    pool = await split(prefill=1, decode=2, settings=ROOM_FOR_ONE)
    (queue,) = pool.gateway.shell.queues.all()
    first, second = await pool.gateway.connect(), await pool.gateway.connect()
    first.post(chat("first"))
    prefill = await pool.prefill[0].call()
    second.post(chat("second"))
    await eventually(lambda: queue.held == 1)
    assert queue.room.saturation(pool.gateway.shell.now()) == {"prefill": 1.0, "decode": 0.5, "all": 1.0}
    prefill.answer(json.dumps({"kv_transfer_params": {"remote_port": 1}}).encode())
    assert b"second" in (await pool.prefill[0].call()).body
    assert queue.held == 0
    first.close()
    second.close()


async def test_a_pool_where_nobody_decodes_is_waited_for(split, eventually):
    """Endpoints that only prefill answer nobody."""
    pool = await split(prefill=1, decode=1, settings={"queue_no_endpoint_wait_s": 60.0})
    (queue,) = pool.gateway.shell.queues.all()
    pool.use(decode=[])
    client = await pool.gateway.connect()
    client.post(chat("waits"))
    await eventually(lambda: queue.held == 1)
    assert queue.room.is_empty
    client.close()
    await eventually(lambda: queue.held == 0)
