"""A pool that may be scaled to zero holds its requests until its first endpoint is ready."""

import asyncio
import json
import re

import httpx2
import pytest

from headgate import routing
from headgate.gateway import pages

REASONS = ("x-headgate-dropped-reason", "x-llm-d-request-dropped-reason")
START = routing.Start(30.0)


@pytest.fixture(params=[True, False], ids=["queue on", "queue off"])
async def cold(request, start_pool):
    """A pool at zero; where flow control is off, it holds requests for this alone."""
    pool = await start_pool(
        queue_enabled=request.param,
        queue_no_endpoint_wait_s=0,
        clients_trusted_networks=("127.0.0.0/8",),
        logging_access_log="json",
    )
    pool.gateway.serve([], start=START)
    return pool


def rejected(response, code):
    """The Retry-After of a rejection for want of an endpoint."""
    assert (response.status, response.json["error"]["code"]) == (503, code)
    assert [response.header(name) for name in REASONS] == ["rejected-no-endpoints"] * 2
    return int(response.header("retry-after"))


async def test_the_first_request_is_served_by_the_first_endpoint(cold, endpoint):
    """And those that came meanwhile, in the order of their arrival, as far as there is capacity."""
    clients = [await cold.wait(name) for name in ("first", "second")]
    cold.gateway.serve([endpoint], start=START)
    assert [await cold.served() for _ in clients] == ["first", "second"]
    assert [(await client.response()).status for client in clients] == [200, 200]
    assert cold.queue.held == 0


async def test_an_adapter_of_the_model_starts_it_too(cold, endpoint):
    """Its requests wait in the same queue."""
    client = await cold.gateway.connect()
    client.post({"model": "adapter", "prompt": "hello"})
    await cold._eventually(lambda: cold.queue.held == 1)
    cold.gateway.serve([endpoint], start=START)
    call = await endpoint.call()
    assert call.json["model"] == "adapter"
    call.answer(b"{}")
    assert (await client.response()).status == 200


async def test_streams_get_their_head_and_progress(cold, endpoint):
    """As they do while they are queued for any other reason; the response follows."""
    client = await cold.wait("streams", stream=True, x_headgate_progress="true")
    cold.sweep(1.0)
    response = await client.head()
    assert response.status == 200
    cold.gateway.serve([endpoint], start=START)
    call = await endpoint.call()
    call.answer(b"data: [DONE]\n\n", **{"content-type": "text/event-stream"})
    body = (await client.read_body(response)).body
    assert body.startswith(b": queued, the model is being started, about ")
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_client_without_the_patience_is_rejected_at_once(cold):
    """With the time of the start; it starts the model nevertheless."""
    starved = []
    cold.gateway.shell.queues.on_starved(lambda: starved.append(True))
    response = await cold.gateway.ask(x_request_timeout_ms="10000")
    assert 20 <= rejected(response, "model_starting") <= 30
    assert starved == [True]
    (waiting,) = cold.gateway.shell.plane.waiting_for_endpoints().values()
    assert waiting.requests == 0
    assert waiting.is_wanted(waiting.last_at + 59.0)
    assert not waiting.is_wanted(waiting.last_at + 60.0)


async def test_a_failed_start_says_so(cold):
    """Those that wait are told at once, and so are those that come."""
    waits = await cold.wait("waits")
    cold.gateway.serve([], start=routing.Start(30.0, "no GPU is free"))
    for response in (await waits.response(), await cold.gateway.ask()):
        assert rejected(response, "start_failed") == 30
        assert "default/pool: it could not be started: no GPU is free" in response.json["error"]["message"]


async def test_a_client_that_leaves_frees_its_place(cold, endpoint):
    """Nothing is sent for it later."""
    leaves, stays = await cold.wait("leaves"), await cold.wait("stays")
    leaves.close()
    await cold._eventually(lambda: cold.queue.held == 1)
    cold.gateway.serve([endpoint], start=START)
    assert await cold.served() == "stays"
    assert (await stays.response()).status == 200
    assert len(endpoint.calls) == 1


async def test_what_waits_is_bounded_in_number_and_bytes(start_pool):
    """Below the bounds of the queue, which hold for pools that serve."""
    pool = await start_pool(queue_start_max_requests=2, queue_start_max_bytes=4000)
    pool.gateway.serve([], start=START)
    await pool.wait("waits")
    large = await pool.gateway.ask({"model": "m", "prompt": "x" * 4000})
    assert rejected(large, "model_starting") <= 30
    assert "4000 bytes" in large.json["error"]["message"]
    await pool.wait("waits, too")
    response = await pool.gateway.ask()
    assert rejected(response, "model_starting") <= 30
    assert "2 requests" in response.json["error"]["message"]


async def test_what_waits_is_bounded_in_time(start_pool):
    """Even if the start is late."""
    pool = await start_pool(queue_start_wait_s=0.2)
    pool.gateway.serve([], start=routing.Start(0.1))
    response = await pool.gateway.ask()
    assert rejected(response, "model_starting") == 1
    assert "no endpoint was ready within" in response.json["error"]["message"]


async def test_a_gateway_that_ends_lets_nobody_wait(cold):
    """Clients are told at once, and another gateway may serve them."""
    client = await cold.wait("waits")
    drained = asyncio.create_task(cold.gateway.shell.drain(10.0))
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (503, "shutting_down")
    assert await drained == 0


async def test_the_first_arrival_is_reported_at_once(cold, endpoint):
    """Before anything else happens, and again once the pool has been at zero again."""
    starved = []
    plane = cold.gateway.shell.plane

    def note():
        starved.append([waiting.requests for waiting in plane.waiting_for_endpoints().values()])

    cold.gateway.shell.queues.on_starved(note)
    assert plane.waiting_for_endpoints() == {}
    await cold.wait("first")
    await cold.wait("second")
    assert starved == [[1]]
    (waiting,) = plane.waiting_for_endpoints().values()
    assert waiting.requests == 2
    cold.gateway.serve([endpoint], start=START)
    assert [await cold.served() for _ in range(2)] == ["first", "second"]
    assert plane.waiting_for_endpoints() == {}
    cold.gateway.serve([], start=START)
    await cold.wait("third")
    assert starved == [[1], [1]]


async def test_without_the_annotation_any_more_nobody_waits(cold):
    """The pool is one without endpoints as any other."""
    client = await cold.wait("waits")
    cold.gateway.serve([])
    assert rejected(await client.response(), "no_ready_endpoint") >= 1


async def test_operators_see_how_long_a_start_was_waited_for(cold, endpoint):
    """In the log, in metrics, among the requests in flight, and in the header for those who may see it."""
    client = await cold.wait("waits", x_headgate_explain="1")
    assert "requests start the pool" in cold.queue.why_wait(0, cold.queue.room.ready_at)
    (shown,) = (await cold.page("/debug/requests"))["requests"]
    assert shown["phase"] == "queued"
    assert shown["start_wait_s"] == shown["queued_s"]
    await asyncio.sleep(0.05)
    cold.gateway.serve([endpoint], start=START)
    assert await cold.served() == "waits"
    decision = (await client.response()).header("x-headgate-decision")
    assert int(re.search(r"start-wait=(\d+)ms", decision)[1]) >= 50
    await cold.gateway.idle()
    name = "headgate_gateway_flow_control_start_wait_seconds"
    assert cold.gateway.metric(f"{name}_count", outcome="dispatched") == 1
    assert cold.gateway.metric(f"{name}_sum") >= 0.05
    await cold.ask("waits for nothing")
    await cold.served()
    await cold.gateway.idle()
    waited, other = map(json.loads, cold.gateway.log_lines())
    assert 50 <= waited["duration_start_wait"] <= waited["duration_queued"]
    assert other["duration_start_wait"] == 0


async def test_an_explanation_says_what_a_request_would_get(cold):
    """Without sending it, and without starting anything."""

    async def explained():
        transport = httpx2.ASGITransport(app=pages.admin_page(cold.gateway.shell))
        async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
            response = await client.post("/debug/explain/v1/completions", json={"model": "m", "prompt": "a"})
        (target,) = response.json()["targets"]
        return target["waits"], target["answer"]

    waits, answer = await explained()
    assert waits == (
        "no endpoint is ready: requests start the pool, which is expected to take 30 s; it waits up to 600 s"
    )
    assert (answer["status"], answer["headers"]["retry-after"]) == (503, "30")
    cold.gateway.serve([], start=routing.Start(30.0, "no GPU is free"))
    waits, answer = await explained()
    assert waits == ""
    assert json.loads(answer["body"])["error"]["code"] == "start_failed"
    assert "it could not be started: no GPU is free" in answer["body"]
    assert cold.gateway.shell.plane.waiting_for_endpoints() == {}


async def test_an_endpoint_that_cannot_be_reached_yet_is_tried_again(cold, endpoint):
    """A Pod may be ready a moment before its address works, and requests have waited long for it."""
    port = endpoint.port
    await endpoint.stop()
    clients = [await cold.wait(name) for name in ("first", "second")]
    cold.gateway.serve([endpoint], start=START)
    await cold._eventually(lambda: "connect" in next(iter(cold.gateway.shell.plane.ledger.loads())).reasons)
    await cold._eventually(lambda: cold.queue.held == 2)
    assert cold.queue.awaits_start
    await endpoint.start()
    assert endpoint.port == port
    await cold._eventually(lambda: cold.queue.sweep(cold.queue.room.ready_at + 60.0) or endpoint.calls)
    assert {await cold.served() for _ in clients} == {"first", "second"}
    assert [(await client.response()).status for client in clients] == [200, 200]
    await cold.gateway.idle()
    waited = [json.loads(line) for line in cold.gateway.log_lines()]
    assert {each["outcome"] for line in waited for each in line["attempts"]} >= {"connect", "served"}
    assert [line["duration_start_wait"] > 0 for line in waited] == [True, True]


async def test_a_request_that_meets_the_end_of_the_last_endpoint_waits_for_another(cold, endpoint):
    """It came a moment too early: nothing of a response has come, and the pool is at zero by now."""
    cold.gateway.serve([endpoint], start=START)
    client = await cold.ask("meets the end")
    call = await endpoint.call()
    cold.gateway.serve([], start=START)
    call.reset()
    await cold._eventually(lambda: cold.queue.held == 1)
    cold.gateway.serve([endpoint], start=START)
    # It has just closed a connection, so that it is tried a moment later.
    before = len(endpoint.calls)
    await cold._eventually(
        lambda: cold.queue.sweep(cold.queue.room.ready_at + 60.0) or len(endpoint.calls) > before
    )
    assert await cold.served() == "meets the end"
    assert (await client.response()).status == 200


async def test_a_response_that_has_begun_is_not_started_again(cold, endpoint):
    """Its client has a part of it."""
    cold.gateway.serve([endpoint], start=START)
    client = await cold.ask("hello")
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    await client.head()
    cold.gateway.serve([], start=START)
    call.reset()
    assert await client.rest() == b"half"
    assert cold.queue.held == 0
