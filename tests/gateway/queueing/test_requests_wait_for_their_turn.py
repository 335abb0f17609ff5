"""Requests are queued while their pool has no capacity, and sent when it has; each ends exactly once."""

import asyncio

import pytest


async def test_a_request_goes_at_once_where_there_is_room(pool, endpoint):
    """Nothing is made for it."""
    client = await pool.ask()
    call = await endpoint.call()
    (exchange,) = [each.exchange for each in pool.gateway.shell.clients.all]
    assert exchange.life.wait is None
    call.answer(b"{}")
    assert (await client.response()).status == 200
    assert pool.outcomes("dispatched") == 0


async def test_requests_are_sent_one_after_the_other(pool, endpoint):
    """Each end makes room for the next, in the order of their arrival."""
    clients = [await pool.ask("first")]
    await endpoint.call()
    clients += [await pool.wait(f"waits {number}") for number in range(3)]
    assert len(endpoint.calls) == 1
    endpoint.calls[0].answer(b"{}")
    assert [await pool.served() for _ in range(3)] == ["waits 0", "waits 1", "waits 2"]
    for client in clients:
        assert (await client.response()).status == 200
    assert pool.queue.held == 0
    assert pool.outcomes("dispatched", pool="default/pool", priority="0") == 3


async def test_an_endpoint_with_all_its_connections_is_waited_for(start_pool, endpoint):
    """What is predicted would let more go, but there is no connection for them."""
    pool = await start_pool(queue_detector="predicted-work", endpoints_max_connections=1)
    await pool.ask("first")
    first = await endpoint.call()
    await pool.wait("second")
    first.answer(b"{}")
    assert await pool.served() == "second"


async def test_engines_that_are_waited_for_are_looked_at_often(pool, endpoint):
    """They know nothing of what waits here."""
    await pool.ask()
    await endpoint.call()
    (load,) = pool.gateway.shell.plane.ledger.loads()
    scraper = pool.gateway.shell.scraper
    assert not scraper.listener.is_waited_for(load)
    await pool.wait()
    assert scraper.listener.is_waited_for(load)
    settings = pool.gateway.shell.settings
    assert scraper.looks.pace.after(None, 0.0) == settings.engine_metrics.interval_s
    assert scraper.looks.pace.after(None, 0.0, is_waited_for=True) == pytest.approx(
        settings.engine_metrics.busy_interval_s
    )


async def test_who_is_more_important_goes_first(pool, endpoint):
    """However late it comes; those of the lowest priority go last."""
    await pool.ask()
    first = await endpoint.call()
    for priority in (-1, 0, 1, 0, 7):
        await pool.wait(f"of {priority}", x_llm_d_inference_objective=str(priority))
    first.answer(b"{}")
    assert [await pool.served() for _ in range(5)] == ["of 7", "of 1", "of 0", "of 0", "of -1"]


async def test_flows_take_turns(pool, endpoint):
    """A flow with many requests does not keep another from going."""
    await pool.ask()
    first = await endpoint.call()
    for number in range(3):
        await pool.wait(f"noisy {number} " + "x" * 4000, x_headgate_fairness_id="noisy")
    await pool.wait("quiet " + "x" * 4000, x_headgate_fairness_id="quiet")
    first.answer(b"{}")
    order = [(await pool.served()).split()[0] for _ in range(4)]
    assert order.index("quiet") <= 1


async def test_what_an_endpoint_holds_is_no_work(pool, endpoint):
    """A prompt whose beginning is in a cache costs its flow only the rest."""
    known, new = "known " * 5000, "other " * 5000
    client = await pool.ask(known)
    (await endpoint.call()).answer(b"{}")
    assert (await client.response()).status == 200
    await pool.ask("runs")
    await endpoint.call()
    for prompt in (known, new):
        await pool.wait(prompt)
    work = [wait.place.work for wait in pool.queue.waits()]
    assert work[0] < work[1] / 2


async def test_objectives_of_the_first_token_may_order(start_pool, endpoint):
    """Where that is set: who wants it soonest goes first, under both names of the header."""
    pool = await start_pool(queue_order="slo-deadline-ordering-policy")
    await pool.ask()
    first = await endpoint.call()
    await pool.wait("none")
    await pool.wait("late", x_slo_ttft_ms="600000")
    await pool.wait("soon", x_llm_d_slo_ttft_ms="1000")
    first.answer(b"{}")
    assert [await pool.served() for _ in range(3)] == ["soon", "late", "none"]


async def test_the_first_token_makes_room(pool, endpoint, monkeypatch):
    """Where room is what the endpoint has yet to prefill, nobody waits for the end of a stream."""
    monkeypatch.setattr(
        type(pool.queue.room.capacity),
        "has_room",
        lambda self, priority, now: all(load.decoding == load.requests for load in self.loads),
    )
    client = await pool.ask("streams", stream=True)
    call = await endpoint.call()
    await pool.wait("waits")
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"9\r\ndata: 1\n\n\r\n")
    assert (await client.head()).status == 200
    assert await pool.served() == "waits"
    call.write(b"0\r\n\r\n")


async def test_a_client_that_leaves_is_never_sent(pool, endpoint, eventually):
    """Its place is free at once, and whoever was behind it goes in its stead."""
    await pool.ask()
    first = await endpoint.call()
    leaving = await pool.wait("leaves")
    await pool.wait("stays")
    leaving.close()
    await eventually(lambda: pool.queue.held == 1)
    first.answer(b"{}")
    assert await pool.served() == "stays"
    await eventually(lambda: pool.gateway.settled == 3)
    assert len(endpoint.calls) == 2
    assert pool.outcomes("rejected-context-cancelled") == 1
    assert pool.gateway.metric("headgate_gateway_requests_total", outcome="client_gone", code="499") == 1


async def test_a_retry_does_not_wait_again(start_pool, start_endpoint, endpoint):
    """A request that was sent keeps its turn; whoever waits does so for an endpoint that has not failed."""
    pool = await start_pool()
    second = await start_endpoint()
    pool.gateway.serve([endpoint, second])
    failing, other = await pool.ask("fails once"), await pool.ask("other")
    calls = [await endpoint.call(), await second.call()]
    await pool.wait("waits")
    calls[0].answer(b"", "503 Busy")
    retried = await second.call()
    assert retried.json["prompt"] == calls[0].json["prompt"]
    assert pool.queue.held == 1
    retried.answer(b"{}")
    calls[1].answer(b"{}")
    assert (await second.call()).json["prompt"] == "waits"
    assert [(await client.response()).status for client in (failing, other)] == [200, 200]


async def test_requests_of_one_connection_keep_their_order(pool, endpoint, request_bytes):
    """One that is sent ahead is not even looked at while the one before it waits."""
    await pool.ask()
    first = await endpoint.call()
    client = await pool.wait("one")
    client.send(request_bytes({"model": "m", "prompt": "two"}))
    first.answer(b"{}")
    assert [await pool.served(), await pool.served()] == ["one", "two"]
    assert [(await client.response()).status for _ in range(2)] == [200, 200]


async def test_what_waits_is_seen(pool, endpoint):
    """Among the requests in flight, and with its place in the queue."""
    await pool.ask()
    await endpoint.call()
    await pool.wait("waits", x_llm_d_inference_objective="1", x_headgate_fairness_id="team-a")
    requests = (await pool.page("/debug/requests"))["requests"]
    waiting = next(each for each in requests if each["phase"] == "queued")
    assert (waiting["flow"], waiting["priority"]) == ("team-a", 1)
    (shown,) = (await pool.page("/debug/flow"))["default/pool"]
    assert (shown["endpoints"], shown["in_flight"], shown["is_on"]) == (1, 1, True)
    assert "wait before it" in shown["why"]
    (band,) = [band for band in shown["queue"]["bands"] if band["requests"]]
    assert (band["priority"], band["flows"][0]["name"]) == (1, "team-a")
    size = pool.gateway.metric("headgate_gateway_flow_control_queue_size", flow="team-a", priority="1")
    assert size == 1
    assert pool.gateway.metric("headgate_gateway_flow_control_queue_bytes") > 0
    assert pool.gateway.metric("headgate_gateway_flow_control_pool_saturation") == 1


async def test_everyone_is_settled_once_however_many_leave(pool, endpoint, eventually):
    """Of two hundred that wait, every third leaves amid the releases."""
    endpoint.behave = None
    clients = [await pool.ask("0")]
    first = await endpoint.call()
    clients += await asyncio.gather(*(pool.ask(str(number)) for number in range(1, 200)))
    await eventually(lambda: pool.queue.held == 199)
    endpoint.behave = lambda call: call.answer(b"{}")
    first.answer(b"{}")
    for client in clients[::3]:
        client.close()
    await eventually(lambda: pool.gateway.settled == 200)
    assert pool.queue.held == 0
    assert pool.outcomes("dispatched") + pool.outcomes("rejected-context-cancelled") == 199
    pool.queue._flow.validate()
