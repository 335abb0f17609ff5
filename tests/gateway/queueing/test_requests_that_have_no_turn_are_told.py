"""A request that may not wait, or no longer, is rejected with a reason and a time to retry, unsent."""

import asyncio
import itertools
import json
import logging

import pytest

from headgate import routing
from headgate.requests.queueing import pool_queue

REASONS = ("x-headgate-dropped-reason", "x-llm-d-request-dropped-reason")


def told(response, status, code, reason):
    """Whether a refusal says what it has to."""
    assert (response.status, response.json["error"]["code"]) == (status, code)
    assert [response.header(name) for name in REASONS] == [reason, reason]
    assert 1 <= int(response.header("retry-after")) <= 300
    assert response.json["error"]["message"]


async def test_time_runs_out(start_pool, endpoint):
    """F8: it was saturated all the time, and the request is not sent afterwards."""
    pool = await start_pool(queue_ttl_s=0.1)
    await pool.ask()
    first = await endpoint.call()
    told(await pool.gateway.ask(), 429, "queue_timeout", "rejected-ttl-expired")
    first.answer(b"{}")
    await pool.gateway.idle()
    assert len(endpoint.calls) == 1
    assert pool.outcomes("rejected-ttl-expired") == 1


async def test_a_client_says_how_long_it_waits(start_pool, endpoint):
    """Its own patience ends the wait, where that is shorter."""
    pool = await start_pool(queue_ttl_s=0)
    await pool.ask()
    await endpoint.call()
    response = await pool.gateway.ask(x_request_timeout_ms="100")
    told(response, 429, "queue_timeout", "rejected-ttl-expired")


async def test_the_queue_is_full(start_pool, endpoint):
    """The next is refused at once, and those who wait stay."""
    pool = await start_pool(queue_max_requests=1)
    await pool.ask()
    first = await endpoint.call()
    await pool.wait("waits")
    told(await pool.gateway.ask(), 429, "queue_full", "rejected-saturated")
    first.answer(b"{}")
    assert await pool.served() == "waits"


async def test_the_queue_is_full_while_the_pool_is_empty(start_pool, endpoint):
    """Nobody is served, so it is 503 and not 429: nothing that the client did less of would help."""
    pool = await start_pool(queue_max_requests=1, queue_no_endpoint_wait_s=30)
    pool.gateway.serve([])
    await pool.wait("waits")
    told(await pool.gateway.ask(), 503, "no_ready_endpoint", "rejected-no-endpoints")
    assert pool.outcomes("rejected-no-endpoints") == 1
    pool.gateway.serve([endpoint])
    assert await pool.served() == "waits"


async def test_the_bytes_of_bodies_count(start_pool, endpoint):
    """What waits is bounded in memory, too."""
    pool = await start_pool(queue_max_bytes=2000)
    await pool.ask()
    await endpoint.call()
    told(
        await pool.gateway.ask({"model": "m", "prompt": "x" * 3000}), 429, "queue_full", "rejected-saturated"
    )
    assert (await pool.wait("short")) is not None


async def test_the_least_important_make_room(start_pool, endpoint):
    """Where the queue is full, and somebody more important comes."""
    pool = await start_pool(queue_max_requests=1)
    await pool.ask()
    await endpoint.call()
    least = await pool.wait("least", x_llm_d_inference_objective="-1")
    await pool.ask("important", x_llm_d_inference_objective="1")
    told(await least.response(), 429, "evicted_queue_pressure", "evicted-queue-pressure")
    assert pool.queue.held == 1


async def test_nobody_is_there_to_answer(start_pool):
    """F10: a pool without endpoints is waited for, and not for ever."""
    pool = await start_pool(queue_no_endpoint_wait_s=0.05)
    pool.gateway.serve([])
    response = await pool.gateway.ask()
    told(response, 503, "no_ready_endpoint", "rejected-no-endpoints")
    assert "none of its Pods is ready" in response.json["error"]["message"]


async def test_nobody_waits_for_endpoints_where_that_is_not_wanted(pool):
    """With `no_endpoint_wait_s` 0, a request is refused at once."""
    pool.gateway.serve([])
    told(await pool.gateway.ask(), 503, "no_ready_endpoint", "rejected-no-endpoints")


async def test_a_fault_is_not_waited_for(start_pool):
    """No Pod that comes will help."""
    pool = await start_pool(queue_no_endpoint_wait_s=60.0)
    pool.gateway.serve([], fault="its Secret has no certificates")
    response = await pool.gateway.ask()
    told(response, 503, "no_ready_endpoint", "rejected-no-endpoints")
    assert "see its status" in response.json["error"]["message"]
    assert "its Secret has no certificates" in pool.gateway.log_lines()[0]


async def test_an_endpoint_comes(start_pool, endpoint, caplog, eventually):
    """F9: what waited for one goes on, and the log and a metric tell of both."""
    caplog.set_level(logging.INFO)
    pool = await start_pool(queue_no_endpoint_wait_s=60.0)
    pool.gateway.serve([])
    client = await pool.wait("from zero")
    waiting = "headgate_gateway_flow_control_waiting_for_endpoints"
    await eventually(lambda: "requests wait up to 60 s for one" in caplog.text)
    assert pool.gateway.metric(waiting, pool="default/pool") == 1
    pool.gateway.serve([endpoint])
    assert await pool.served() == "from zero"
    assert (await client.response()).status == 200
    assert pool.gateway.metric(waiting, pool="default/pool") == 0
    assert "default/pool has a ready endpoint" in caplog.text


async def test_the_pool_is_deleted(start_pool):
    """Nothing is left to wait for."""
    pool = await start_pool(queue_no_endpoint_wait_s=60.0)
    pool.gateway.serve([])
    client = await pool.wait()
    pool.gateway.shell.use(routing.Snapshot())
    told(await client.response(), 503, "no_ready_endpoint", "rejected-no-endpoints")


async def test_many_are_told_in_slices(start_pool, monkeypatch):
    """Of a pool that is deleted while thousands wait, some are told in each turn of the event loop."""
    monkeypatch.setattr(pool_queue, "AT_ONCE", 2)
    pool = await start_pool(queue_no_endpoint_wait_s=60.0)
    pool.gateway.serve([])
    clients = [await pool.wait(str(number)) for number in range(7)]
    (queue,) = pool.gateway.shell.queues.all()
    pool.gateway.shell.use(routing.Snapshot())
    left = [queue.held]
    while left[-1]:
        await asyncio.sleep(0)
        left.append(queue.held)
    assert max(before - after for before, after in itertools.pairwise([7, *left])) == 2
    for client in clients:
        told(await client.response(), 503, "no_ready_endpoint", "rejected-no-endpoints")


async def test_a_gateway_that_stops_holds_nobody(pool, endpoint):
    """Those that run go on to their end."""
    running = await pool.ask()
    call = await endpoint.call()
    waiting = await pool.wait()
    draining = asyncio.create_task(pool.gateway.shell.drain(60))
    told(await waiting.response(), 503, "shutting_down", "rejected-shutting-down")
    call.answer(b"{}")
    assert (await running.response()).status == 200
    assert await draining == 0


async def test_a_gateway_that_is_replaced_lets_them_wait(pool, endpoint):
    """Another takes new connections; those that are here are served."""
    running = await pool.ask()
    call = await endpoint.call()
    waiting = await pool.wait("waits")
    retiring = asyncio.create_task(pool.gateway.shell.retire(60))
    await asyncio.sleep(0)
    call.answer(b"{}")
    assert await pool.served() == "waits"
    assert [(await client.response()).status for client in (running, waiting)] == [200, 200]
    assert await retiring == 0


@pytest.mark.parametrize(("priority", "status"), [("-1", 429), ("0", 200), ("1", 200)])
async def test_without_flow_control(start_pool, endpoint, priority, status):
    """F1 and F2: only what may be shed is refused by a saturated pool, and nothing waits."""
    pool = await start_pool(queue_enabled=False)
    await pool.ask()
    await endpoint.call()
    client = await pool.ask(x_llm_d_inference_objective=priority)
    if status == 200:
        await pool.served()
        assert (await client.response()).status == 200
    else:
        response = await client.response()
        told(response, 429, "queue_full", "rejected-saturated")
        assert "system saturated, sheddable request dropped" in response.json["error"]["message"]


async def test_settings_change_while_requests_wait(pool, endpoint):
    """Nobody loses their place, also where the new settings would not let them in."""
    await pool.ask()
    first = await endpoint.call()
    clients = [await pool.wait(f"waits {number}") for number in range(3)]
    settings = pool.gateway.shell.settings.replace(
        queue_max_requests=1, queue_fairness="global-strict-fairness-policy"
    )
    pool.gateway.shell.change(settings)
    told(await pool.gateway.ask(), 429, "queue_full", "rejected-saturated")
    first.answer(b"{}")
    assert [await pool.served() for _ in range(3)] == ["waits 0", "waits 1", "waits 2"]
    assert [(await client.response()).status for client in clients] == [200] * 3


async def test_anthropics_clients_get_their_form(start_pool, endpoint):
    """By the path that they ask."""
    pool = await start_pool(queue_ttl_s=0.05)
    await pool.ask()
    await endpoint.call()
    response = await pool.gateway.ask({"model": "m"}, "/v1/messages")
    assert (response.status, response.json["error"]["type"]) == (429, "rate_limit_error")


async def test_the_access_log_tells_of_the_wait(start_pool, endpoint):
    """How long, in whose name, and why in vain."""
    pool = await start_pool(logging_access_log="json", queue_max_requests=1)
    await pool.ask()
    first = await endpoint.call()
    await pool.wait("waits", x_llm_d_inference_objective="3", x_headgate_fairness_id="team-a")
    await pool.gateway.ask(x_headgate_fairness_id="team-b")
    first.answer(b"{}")
    await pool.served()
    await pool.gateway.idle()
    lines = sorted(map(json.loads, pool.gateway.log_lines()), key=lambda line: line["flow"] or "")
    names = ("flow", "priority", "dropped_reason", "outcome", "error_origin")
    assert [tuple(line[name] for name in names) for line in lines] == [
        (None, 0, None, "served", None),
        ("team-a", 3, None, "served", None),
        ("team-b", 0, "rejected-saturated", "queue_full", "gateway"),
    ]
    assert lines[0]["duration_queued"] == 0
    assert 0 <= lines[1]["duration_queued"] <= lines[1]["duration_request_processing"] + 1


async def test_the_text_log_tells_only_of_those_that_waited(start_pool, endpoint):
    """The others have nothing to tell."""
    pool = await start_pool(queue_ttl_s=0.05)
    await pool.ask()
    first = await endpoint.call()
    await pool.gateway.ask(x_headgate_fairness_id="team b")
    first.answer(b"{}")
    await pool.gateway.idle()
    waited, plain = pool.gateway.log_lines()
    assert 'flow="team b" priority=0 dropped=rejected-ttl-expired' in waited
    assert "queued=" not in plain
