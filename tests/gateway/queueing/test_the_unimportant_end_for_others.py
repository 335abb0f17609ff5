"""F20: if enabled, running sheddable requests are evicted in favor of queued ones."""

import asyncio


async def test_the_newest_that_may_be_shed_is_taken_back(start_pool, endpoint):
    """With a clean refusal, as it has no answer yet; the work at its endpoint ends, and the other goes."""
    pool = await start_pool(queue_evict_running=True, queue_max_in_flight=2)
    older = await pool.ask("older", x_llm_d_inference_objective="-1")
    kept = await endpoint.call()
    newer = await pool.ask("newer", x_llm_d_inference_objective="-1")
    await endpoint.call()
    important = await pool.ask("important", x_llm_d_inference_objective="1")
    response = await newer.response()
    assert (response.status, response.json["error"]["code"]) == (429, "evicted")
    assert response.header("x-llm-d-request-dropped-reason") == "evicted"
    await asyncio.wait_for(endpoint.connections[1].lost, 60)
    assert await pool.served() == "important"
    kept.answer(b"{}")
    assert [(await client.response()).status for client in (older, important)] == [200, 200]
    assert pool.gateway.metric("headgate_gateway_flow_control_evictions_total", priority="-1") == 1


async def test_nobody_is_taken_back_who_has_a_part_of_the_answer(start_pool, endpoint):
    """The more important one waits for its end."""
    pool = await start_pool(queue_evict_running=True)
    client = await pool.ask("sheddable", x_llm_d_inference_objective="-1")
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
    head = await client.head()
    await pool.wait("important", x_llm_d_inference_objective="1")
    call.write(b"cd")
    assert (await client.read_body(head)).body == b"abcd"
    assert await pool.served() == "important"


async def test_nobody_is_taken_back_unless_that_is_wanted(pool, endpoint):
    """As it is by default."""
    client = await pool.ask("sheddable", x_llm_d_inference_objective="-1")
    call = await endpoint.call()
    await pool.wait("important", x_llm_d_inference_objective="1")
    call.answer(b"{}")
    assert (await client.response()).status == 200
    assert await pool.served() == "important"
