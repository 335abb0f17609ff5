"""Bounds of queues, room, and what flows had are those of the whole gateway, whichever worker is asked."""

import asyncio
import json
import re
from collections import Counter

import pytest

ONE_EACH = ("--workers", "2", "--queue-detector", "concurrency-detector", "--queue-max-in-flight", "1")
QUEUE = "headgate_gateway_flow_control_queue_size"
USED = "headgate_gateway_flow_control_global_capacity_utilization_requests"


@pytest.fixture
def held(engine):
    """The engine, which goes on with no stream."""
    engine.hold.set()
    yield engine
    engine.hold.clear()


@pytest.fixture
async def post():
    """Starts clients on connections of their own; a list of their statuses, which grows as they are told."""
    tasks = []

    def start(gateway, count, **headers):
        statuses = []

        async def one():
            reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
            try:
                body = json.dumps({"model": "m", "prompt": "hello", "stream": True}).encode()
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                head = (
                    f"POST /v1/completions HTTP/1.1\r\nhost: g\r\n{lines}content-length: {len(body)}\r\n\r\n"
                )
                writer.write(head.encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                statuses.append(int(re.match(rb"HTTP/1.1 (\d+)", answer)[1]))
                if statuses[-1] == 200:
                    await reader.readuntil(b"\r\n0\r\n\r\n")
            finally:
                writer.transport.abort()

        tasks.extend(asyncio.create_task(one()) for _ in range(count))
        return statuses

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_all_workers_hold_no_more_than_one_queue(start_gateway, held, post, eventually):
    """Of two endpoints with room for a request each, and a queue for ten: so many are held, and so many run,
    of whatever comes; the others are refused. All that was held is served in the end."""
    gateway = await start_gateway(*ONE_EACH, "--queue-max-requests", "10")
    told = [post(gateway, 40)]

    def all_came():
        return gateway.metric(QUEUE) + sum(map(len, told)) == 40 + 2 * (len(told) - 1)

    await eventually(all_came)
    assert 2 <= len(told[0]) - told[0].count(429) <= 3

    def is_full():
        return gateway.metric(QUEUE) == 10 and gateway.metric(USED) == pytest.approx(1.0)

    while not is_full():  # one worker's part may have been free, or what was held may have had its turn
        told.append(post(gateway, 2))
        await eventually(all_came)
        assert gateway.metric(QUEUE) <= 10
    held.hold.clear()
    statuses = [status for each in told for status in each]
    refused = statuses.count(429)
    sent = 40 + 2 * (len(told) - 1)
    await eventually(lambda: sum(map(len, told)) == sent)
    assert Counter(status for each in told for status in each) == {200: sent - refused, 429: refused}


async def test_what_a_flow_used_counts_at_every_worker(start_gateway, engine, post, eventually):
    """By usage: whichever worker served it, it stands the same at both."""
    by_usage = (
        "--queue-fairness",
        "windowed-usage",
        "--queue-ttl-s",
        "600",
        "--queue-fairness-ids-from",
        "anyone",
    )
    gateway = await start_gateway(*ONE_EACH, *by_usage)
    served = post(gateway, 12, **{"x-headgate-fairness-id": "greedy"})
    await eventually(lambda: served.count(200) == 12)
    engine.hold.set()
    try:
        post(gateway, 30, **{"x-headgate-fairness-id": "greedy"})

        def standings():
            shown = gateway.get("/debug/flow").json()["default/m"]
            bands = [band for each in shown for band in each["queue"]["bands"]]
            return [flow["standing"] for band in bands for flow in band["flows"]]

        await eventually(lambda: len(found := standings()) == 2 and len(set(found)) == 1)
        assert int(standings()[0].split()[0]) >= 12 * 2
    finally:
        engine.hold.clear()
