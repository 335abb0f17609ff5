"""Two gateways that are peers know each other's requests, and keep to the capacity of a pool together."""

import asyncio
import json
import re

import pytest

ONE_EACH = ("--queue-detector", "concurrency-detector", "--queue-max-in-flight", "1")
QUEUE = "headgate_gateway_flow_control_queue_size"
PEERS = "headgate_gateway_peers"
OWN = "headgate_gateway_endpoint_requests"
REPORTS = "headgate_gateway_peer_reports_total"


@pytest.fixture
def held(engine):
    """The engine, which goes on with no stream."""
    engine.hold.set()
    yield engine
    engine.hold.clear()


@pytest.fixture
async def ask():
    """Starts a stream, and keeps its connection; returns the task, whose result is the status."""
    tasks, writers = [], []

    async def one(gateway):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        writers.append(writer)
        body = json.dumps({"model": "m", "prompt": "hello", "stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        return int(re.match(rb"HTTP/1.1 (\d+)", await reader.readuntil(b"\r\n\r\n"))[1])

    def start(gateway):
        tasks.append(asyncio.create_task(one(gateway)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for writer in writers:
        writer.transport.abort()


async def test_a_killed_gateway_takes_its_requests_along(
    start_gateway, held, ask, eventually, unused_tcp_port_factory
):
    """What one gateway sends fills the pool for the other, which queues its request; when the first one is
    killed, the request goes."""
    ports = [unused_tcp_port_factory() for _ in range(2)]
    peers = [flag for port in ports for flag in ("--peers", f"127.0.0.1:{port}")]
    first, second = [await start_gateway(*ONE_EACH, *peers, "--peers-port", str(port)) for port in ports]
    await eventually(lambda: first.metric(PEERS) == second.metric(PEERS) == 1)
    streams = [ask(second), ask(second)]
    await asyncio.gather(*streams)
    assert second.metric(OWN) == 2
    heard = first.metric(REPORTS, result="received")
    await eventually(lambda: first.metric(REPORTS, result="received") >= heard + 2)  # it knows of them now
    waiting = ask(first)
    await eventually(lambda: first.metric(QUEUE) == 1)
    assert first.metric(OWN) == 0
    assert not waiting.done()
    second.process.kill()
    assert await waiting == 200
    await eventually(lambda: first.metric(PEERS) == 0)
