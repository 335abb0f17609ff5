"""Simulated engines get no more than they can take; queued requests are all served, in any form."""

import asyncio

import pytest

from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running


class Engine:
    """Where a simulated engine listens."""

    def __init__(self, port: int) -> None:
        self.port = port


@pytest.fixture
async def engines():
    """Two of them."""
    settings = ServerSettings(engine=PROFILES["fast"].config, models=("m",), drain_s=0)
    socks = [listen("127.0.0.1", 0) for _ in range(2)]
    async with running(settings, socks[0]), running(settings, socks[1]):
        yield [Engine(sock.getsockname()[1]) for sock in socks]


async def test_a_burst_of_streams_and_others(start_gateway, engines):
    """Of all tenants, with and without progress; each is answered whole, and they have four at a time."""
    gateway = await start_gateway(
        *engines,
        settings={
            "queue_detector": "concurrency-detector",
            "queue_max_in_flight": 2,
            "queue_fairness_ids_from": "anyone",
        },
    )
    running_at_once = []

    async def look():
        """At each turn of the loop: none sends a request and has its response."""
        while True:
            running_at_once.append(gateway.shell.plane.ledger.statistics()["requests"])
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())

    async def ask(number: int):
        is_stream = number % 2 == 0
        body = {"model": "m", "max_tokens": 5, "stream": is_stream, "prompt": "hello " * (number + 1)}
        headers = {"x_headgate_fairness_id": f"tenant-{number % 3}", "x_headgate_progress": "true"}
        return await gateway.ask(body, "/v1/completions", **headers), is_stream

    for response, is_stream in await asyncio.gather(*(ask(number) for number in range(40))):
        assert response.status == 200
        if is_stream:
            assert response.body.endswith(b"data: [DONE]\n\n")
        else:
            assert response.json["usage"]["completion_tokens"] == 5
    looking.cancel()
    assert max(running_at_once) == 4
    await gateway.idle()
    (queue,) = gateway.shell.queues.all()
    assert queue.held == 0
    queue._flow.validate()
    waited = gateway.metric("headgate_gateway_flow_control_requests_total", outcome="dispatched")
    assert waited == gateway.metric("headgate_gateway_flow_control_requests_total")
