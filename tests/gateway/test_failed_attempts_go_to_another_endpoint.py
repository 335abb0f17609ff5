"""When a request is retried, where, how often and how fast; and when it is not."""

import asyncio
import socket
from types import SimpleNamespace

import msgspec
import pytest

from headgate.gateway.connections import EndpointConnections

pytestmark = pytest.mark.every_loop


def _refusing(status):
    return lambda call: call.answer(b"theirs", f"{status} Status")


async def test_refused_connection(start_gateway, start_endpoint):
    """An endpoint that refuses connections is passed over, with the full body (R21)."""
    dead, alive = await start_endpoint(), await start_endpoint()
    await dead.stop()
    alive.behave = lambda call: call.answer(b"%d" % len(call.body))
    gateway = await start_gateway(dead, alive)
    body = b'{"model":"m","prompt":"%b"}' % (b"x" * 10_000)
    assert (await gateway.ask(body)).body == b"%d" % len(body)
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="connect") == 1
    assert "attempts=2" in gateway.log_lines()[0]


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_connection_lost_before_the_answer(start_gateway, start_endpoint, way):
    """A connection that ends before anything of an answer came costs the client nothing."""
    failing = await start_endpoint(behave=lambda call: getattr(call, way)())
    gateway = await start_gateway(failing, await start_endpoint(b"alive"))
    assert (await gateway.ask()).body == b"alive"
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="reset") == 1


@pytest.mark.parametrize(
    "sent",
    [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"],
    ids=["a byte", "a line", "an interim response"],
)
async def test_no_work_is_done_twice_once_a_response_has_begun(start_gateway, start_endpoint, sent):
    """Whoever began to respond may have done what was asked: the request goes to nobody else."""

    def fail(call):
        call.write(sent)
        call.close()

    endpoints = [await start_endpoint(behave=fail) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_failed")
    assert sum(len(endpoint.calls) for endpoint in endpoints) == 1
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="reset") == 1


async def test_connection_closed_as_soon_as_it_is_accepted(start_gateway, start_endpoint):
    """An endpoint that accepts and hangs up at once fails like one that refuses."""
    fickle = await start_endpoint()
    fickle._server.close()

    async def hang_up(reader, writer):
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", fickle.port)
    gateway = await start_gateway(fickle, await start_endpoint(b"alive"))
    for _ in range(20):
        gateway.shell.plane.ledger.loads()[0].suspect_until = 0
        assert (await gateway.ask()).body == b"alive"
    server.close()


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_statuses_that_another_may_do_better(start_gateway, start_endpoint, status):
    """Overload and proxy errors are tried elsewhere."""
    gateway = await start_gateway(
        await start_endpoint(behave=_refusing(status)), await start_endpoint(b"alive")
    )
    assert (await gateway.ask()).body == b"alive"


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 502, 503, 504])
async def test_statuses_pass_through_when_nobody_else_is_left(start_gateway, start_endpoint, status):
    """The last endpoint's answer is the client's, status and body untouched."""
    gateway = await start_gateway(await start_endpoint(behave=_refusing(status)))
    response = await gateway.ask()
    assert (response.status, response.body) == (status, b"theirs")


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422])
async def test_statuses_that_are_an_answer(start_gateway, start_endpoint, status):
    """A client's mistake in the request is not sent to a second engine."""
    other = await start_endpoint(b"alive")
    gateway = await start_gateway(await start_endpoint(behave=_refusing(status)), other)
    assert (await gateway.ask()).status == status
    assert other.calls == []


@pytest.mark.parametrize(("attempts", "asked"), [(None, 3), (0, 1), (1, 2), (9, 4)])
async def test_number_of_attempts(start_gateway, start_endpoint, attempts, asked):
    """`attempts` says how often a request is tried again; each time another endpoint gets it."""
    endpoints = [await start_endpoint(behave=_refusing(503)) for _ in range(4)]
    gateway = await start_gateway(*endpoints, attempts=attempts, retry_interval_s=0.0)
    assert (await gateway.ask()).status == 503
    assert [len(endpoint.calls) for endpoint in endpoints] == [1] * asked + [0] * (4 - asked)


async def test_interval_between_attempts(start_gateway, start_endpoint, eventually):
    """`retryInterval` is waited for before each further attempt."""
    endpoints = [await start_endpoint(behave=_refusing(503)) for _ in range(3)]
    gateway = await start_gateway(*endpoints, attempts=2, retry_interval_s=60)
    timers = gateway.timers
    asking = asyncio.create_task(gateway.ask())
    for attempt in (1, 2):
        await eventually(lambda: timers.running(60))
        assert sum(len(endpoint.calls) for endpoint in endpoints) == attempt
        timers.end(60)
    assert (await asking).status == 503
    assert sum(len(endpoint.calls) for endpoint in endpoints) == 3


async def test_endpoints_that_came_meanwhile(start_gateway, start_endpoint, eventually):
    """A request that waits to be tried again goes to an endpoint of then, not to one that has gone."""
    busy, gone, new = [await start_endpoint(behave=_refusing(503)) for _ in range(3)]
    new.behave = lambda call: call.answer(b"new")
    gateway = await start_gateway(busy, gone, attempts=1, retry_interval_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    client.post()
    await eventually(lambda: timers.running(60))
    gateway.serve([busy, new], attempts=1, retry_interval_s=60)
    timers.end(60)
    assert (await client.response()).body == b"new"
    assert gone.calls == []


async def test_pool_that_is_gone_meanwhile(start_gateway, start_endpoint, eventually):
    """A request that waits for its next attempt is told if its pool is deleted."""
    busy = [await start_endpoint(behave=_refusing(503)) for _ in range(2)]
    gateway = await start_gateway(*busy, attempts=1, retry_interval_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    client.post()
    await eventually(lambda: timers.running(60))
    gateway.shell.use(msgspec.structs.replace(gateway.shell.plane.snapshot, pools={}))
    timers.end(60)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert "deleted while the request waited" in response.json["error"]["message"]


async def test_nobody_can_be_reached(start_gateway, start_endpoint):
    """503 with Retry-After, and a line in the log that names the endpoint."""
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead)
    response = await gateway.ask()
    assert (response.status, response.header("retry-after")) == (503, "1")
    assert response.json["error"]["code"] == "endpoint_unreachable"
    assert f"127.0.0.1:{dead.port} cannot be connected to" in gateway.log_lines()[0]


async def test_address_that_cannot_be_looked_up(start_gateway, start_endpoint):
    """A host that is no host fails like one that refuses, instead of leaving the client waiting."""
    gateway = await start_gateway(await start_endpoint())
    load = next(iter(gateway.shell.plane.pools.values())).loads[0]
    load.endpoint = type(load.endpoint)("default/bad", "x" * 64 + ".invalid", 1)
    assert (await gateway.ask()).status == 503


async def test_a_fault_while_connecting_is_no_hang(start_gateway, start_endpoint, monkeypatch, caplog):
    """Whatever goes wrong in the gateway itself, the client hears of it, and so does the log."""
    gateway = await start_gateway(await start_endpoint(), attempts=0)

    async def connect(self):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(EndpointConnections, "connect", connect)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert "a fault of ours" in caplog.text


async def test_time_until_the_answer_begins(start_gateway, start_endpoint):
    """`timeout` ends an attempt whose head does not come (R23), and the next endpoint gets its own time."""
    slow = await start_endpoint()
    alive = await start_endpoint()
    gateway = await start_gateway(slow, alive, timeout_s=60)
    timers = gateway.timers
    asking = asyncio.create_task(gateway.ask())
    await slow.call()
    assert alive.calls == []
    timers.end(60)
    call = await alive.call()
    assert len(timers.running(60)) == 1
    call.answer(b"alive")
    assert (await asking).body == b"alive"
    await slow.connections[0].lost


async def test_time_until_the_answer_begins_is_up_everywhere(start_gateway, endpoint):
    """504 if no endpoint began its answer in time; connecting is part of that time."""
    gateway = await start_gateway(endpoint, timeout_s=0.01)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")


async def test_time_spent_connecting_counts(start_gateway, start_endpoint, eventually):
    """An endpoint whose machine does not even answer is given up after `timeout` too."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = SimpleNamespace(port=listener.getsockname()[1])
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", full.port))
        gateway = await start_gateway(full, await start_endpoint(b"alive"), timeout_s=60)
        timers = gateway.timers
        asking = asyncio.create_task(gateway.ask())
        await eventually(lambda: timers.running(60))
        assert not asking.done()
        timers.end(60)
        assert (await asking).body == b"alive"
        for filler in fillers:
            filler.close()


async def test_streams_outlast_the_timeout(start_gateway, endpoint):
    """`timeout` is until the head: a stream may take longer (R24)."""
    gateway = await start_gateway(endpoint, timeout_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    assert len(timers.running(60)) == 1
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
    await client.head()
    assert timers.running(60) == []
    call.write(b"done")
    assert await client.reader.readexactly(4) == b"done"


async def test_nothing_is_tried_again_after_the_first_byte(start_gateway, start_endpoint):
    """Once the client has a part of an answer, its connection breaks instead."""
    first, other = await start_endpoint(), await start_endpoint(b"other")
    gateway = await start_gateway(first, other)
    client = await gateway.connect()
    client.post()
    call = await first.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
    assert (await client.head()).status == 200
    call.reset()
    assert await client.rest() == b""
    assert other.calls == []
    assert "outcome=upstream_lost" in gateway.log_lines()[0]


async def test_idle_connection_that_the_endpoint_closed(start_gateway, start_endpoint, eventually):
    """A kept connection that proves stale is replaced, on the same endpoint, and is no failure of it."""
    first, other = await start_endpoint(b"first"), await start_endpoint(b"other")
    gateway = await start_gateway(first, other, settings={"scheduling_policy": "least-work"})
    client = await gateway.connect()
    for way in ("close", "reset"):
        client.post()
        assert (await client.response()).body == b"first"
        # The endpoint hangs up when the next request comes: as if both had crossed on the wire.
        calls = len(first.calls)
        first.behave = lambda call, way=way: (
            getattr(call, way)() if call.transport is first.calls[0].transport else call.answer(b"first")
        )
        client.post()
        assert (await client.response()).body == b"first"
        assert len(first.calls) == calls + 2
        first.calls.clear()
        first.behave = lambda call: call.answer(b"first")
        client.post()
        await client.response()
    assert other.calls == []
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0
    assert gateway.shell.plane.ledger.loads()[0].failures == 0


async def test_connections_are_reused(gateway, endpoint):
    """Requests after each other share one connection to the endpoint."""
    endpoint.behave = lambda call: call.answer()
    for _ in range(5):
        await gateway.ask()
    assert len(endpoint.connections) == 1


async def test_connection_with_an_unread_request_is_not_reused(gateway, endpoint):
    """An endpoint that answers before it has read the request may take its rest for the next one."""
    client = await gateway.connect()
    connection_made = endpoint.connections
    early = []

    def answer_early():
        if connection_made and not early:
            early.append(connection_made[0])
            connection_made[0].transport.pause_reading()
            connection_made[0].transport.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")

    client.post(b'{"model":"m","prompt":"%b"}' % (b"x" * 20_000_000))
    while not early:
        answer_early()
        await asyncio.sleep(0)
    assert (await client.response()).status == 413
    endpoint.behave = lambda call: call.answer()
    client.post()
    assert (await client.response()).status == 200
    assert len(endpoint.connections) == 2
