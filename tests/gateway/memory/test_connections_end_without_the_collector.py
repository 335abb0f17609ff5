"""However a connection ends, all its objects are freed immediately, without a garbage collection.

The gateway makes collections rare: objects in a cycle, such as the body of a request, would stay for minutes.
"""

import asyncio
import socket
import struct

import pytest

from headgate import routing
from headgate.simulator.server.tls import self_signed

pytestmark = pytest.mark.every_loop

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n"
PART_OF_BODY = HEAD + b"content-length: 100000\r\n\r\n" + b"x" * 50_000
UPGRADING = HEAD + b"connection: upgrade\r\nupgrade: h2c\r\n"
CHUNKS = HEAD + b"transfer-encoding: chunked\r\n\r\n4\r\n{}  \r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ONE_EVENT = EVENTS + b"a\r\ndata: {}\n\n\r\n"
TIMES = 5


def _reset(client) -> None:
    sock = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


def _close(client) -> None:
    client.writer.close()


LEAVE = pytest.mark.parametrize("leave", [_close, _reset], ids=["closes", "resets"])


def _only(gateway):
    """The gateway's side of its only client connection."""
    return next(iter(gateway.shell.clients.all))


def _phases(gateway) -> list[str]:
    return [each.exchange.life.phase for each in gateway.shell.clients.all if each.exchange is not None]


async def _all_left(gateway, eventually) -> None:
    await eventually(lambda: not gateway.shell.clients.all)
    await gateway.idle()
    await asyncio.sleep(0.002)


@LEAVE
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="before it sends anything"),
        pytest.param(b"POST /v1/chat/comp", id="amid the target"),
        pytest.param(HEAD + b"x-a: b\r\nx-", id="amid the head"),
        pytest.param(HEAD + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n", id="before it may send"),
        pytest.param(PART_OF_BODY, id="amid a body"),
        pytest.param(CHUNKS, id="amid chunks"),
        pytest.param(
            HEAD + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 9\r\n\r\n{", id="upgrading"
        ),
    ],
)
async def test_client_leaves_amid_its_request(gateway, eventually, garbage, sent, leave):
    """At every point of a request that has begun to arrive."""
    for _ in range(TIMES):
        client = await gateway.connect()
        await eventually(lambda: gateway.shell.clients.all)
        client.send(sent)
        await eventually(lambda: not sent or _only(gateway)._reader.is_amid_request)
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(HEAD + b"content-length: 99999999999\r\n\r\n", id="too long a body"),
        pytest.param(HEAD + b"a: b\r\n" * 200 + b"\r\n", id="too many headers"),
        pytest.param(b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", id="a tunnel"),
        pytest.param(CHUNKS + b"nonsense\r\n", id="an invalid chunk"),
    ],
)
async def test_client_leaves_after_a_rejection(gateway, eventually, garbage, sent, leave):
    """The error that ended the parsing holds nothing."""
    for _ in range(TIMES):
        client = await gateway.connect()
        client.send(sent)
        assert (await client.response()).status >= 400
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_after_its_answers(gateway, endpoint, eventually, garbage, leave):
    """After clean requests on a connection that was kept, served and refused."""
    endpoint.behave = lambda call: call.answer(b"{}")
    for _ in range(TIMES):
        client = await gateway.connect()
        for _ in range(3):
            client.post()
            assert (await client.response()).status == 200
        client.post({"model": "unknown"})
        assert (await client.response()).status == 404
        client.send(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
        assert (await client.response()).status == 200
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_while_its_endpoint_works(gateway, endpoint, eventually, garbage, leave):
    """Before the head of the answer."""
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post()
        await endpoint.call()
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_while_its_endpoint_may_take_so_long(
    start_gateway, endpoint, eventually, garbage, leave
):
    """A timer of the pool runs for the request, and stops with it."""
    gateway = await start_gateway(endpoint, timeout_s=100.0)
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post()
        await endpoint.call()
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_amid_a_stream(gateway, endpoint, eventually, garbage, leave):
    """Events flow to it."""
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post({"model": "m", "prompt": "a", "stream": True})
        call = await endpoint.call()
        call.write(ONE_EVENT)
        await client.head()
        call.write(b"a\r\ndata: {}\n\n\r\n")
        await client.reader.readuntil(b"{}")
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_while_requests_wait_behind_one(
    gateway, endpoint, eventually, garbage, request_bytes, leave
):
    """Requests sent ahead wait for the one that is served, and a further one has begun."""
    for _ in range(TIMES):
        client = await gateway.connect()
        client.send(request_bytes() * 4 + PART_OF_BODY)
        await endpoint.call()
        await eventually(lambda: _only(gateway).waiting == 3)
        leave(client)
        await _all_left(gateway, eventually)
    assert not garbage()


@LEAVE
async def test_client_leaves_while_it_is_queued(start_gateway, endpoint, eventually, garbage, leave):
    """It waits for its turn behind another."""
    settings = {"queue_enabled": True, "queue_detector": "concurrency-detector", "queue_max_in_flight": 1}
    gateway = await start_gateway(endpoint, settings=settings)
    first = await gateway.connect()
    first.post()
    call = await endpoint.call()
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post()
        await eventually(lambda: gateway.shell.queues.held == 1)
        leave(client)
        await eventually(lambda: len(gateway.shell.clients.all) == 1)
    served = await gateway.connect()
    served.post()
    await eventually(lambda: gateway.shell.queues.held == 1)
    call.answer()
    (await endpoint.call()).answer()
    assert (await served.response()).status == 200
    leave(first)
    leave(served)
    await _all_left(gateway, eventually)
    assert not garbage()


async def test_client_leaves_while_its_endpoint_is_connected_to(start_gateway, eventually, garbage):
    """The endpoint does not accept the connection: its queue of those is full."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
            fillers.append(filler)
        endpoint = type("Full", (), {"port": full.getsockname()[1]})
        gateway = await start_gateway(endpoint)
        for _ in range(TIMES):
            client = await gateway.connect()
            client.post()
            await eventually(lambda: _phases(gateway) == ["connecting"])
            await asyncio.sleep(0.02)
            _close(client)
            await _all_left(gateway, eventually)
        for filler in fillers:
            filler.close()
    assert not garbage()


@pytest.mark.parametrize(
    "answered",
    [
        pytest.param(b"", id="before its answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-", id="amid the head"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234", id="amid the body"),
        pytest.param(ONE_EVENT, id="amid events"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nok", id="at the end of the body"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="after no HTTP"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n", id="after a bad chunk"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", id="idle"),
    ],
)
@pytest.mark.parametrize("way", ["close", "reset"])
async def test_endpoint_leaves(start_gateway, endpoint, eventually, garbage, answered, way):
    """At every point of its answer, and after it."""
    gateway = await start_gateway(
        endpoint, settings={"endpoints_retries": 0, "endpoints_ejection_failures": 0}
    )
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post({"model": "m", "prompt": "a", "stream": b"event" in answered})
        call = await endpoint.call()
        call.write(answered)
        await asyncio.sleep(0.01)
        if not call.transport.is_closing():  # the gateway ends it where the answer is no HTTP
            getattr(call, way)()
        await client.rest() if b"length: 10" in answered else await client.head()
        client.close()
        await _all_left(gateway, eventually)
        (connections,) = gateway.shell.all_connections()
        await eventually(lambda: not connections.statistics()["open"])  # noqa: B023
    assert not garbage()


async def test_endpoint_refuses_the_connection(start_gateway, start_endpoint, eventually, garbage):
    """Nothing listens at its port."""
    endpoint = await start_endpoint()
    await endpoint.stop()
    gateway = await start_gateway(endpoint, settings={"endpoints_ejection_failures": 0})
    for _ in range(TIMES):
        assert (await gateway.ask()).status == 503
        await _all_left(gateway, eventually)
    assert not garbage()


async def test_endpoint_host_is_unknown(start_gateway, endpoint, eventually, garbage):
    """Its name leads nowhere."""
    gateway = await start_gateway(endpoint, settings={"endpoints_ejection_failures": 0})
    for load in gateway.shell.plane.ledger.loads():
        connections = gateway.shell.services.connections_to(
            next(iter(gateway.shell.plane.pools.values())), load
        )
        connections.endpoint = type(connections.endpoint)("default/pod-0", "no host\n", 1)
    for _ in range(TIMES):
        assert (await gateway.ask()).status == 503
        await _all_left(gateway, eventually)
    assert not garbage()


async def test_idle_connection_to_an_endpoint_is_closed(gateway, endpoint, eventually, garbage):
    """After a few seconds without a request."""
    endpoint.behave = lambda call: call.answer()
    for _ in range(TIMES):
        await gateway.ask()
        (connections,) = gateway.shell.all_connections()
        for _ in range(6):
            connections.sweep()
        await eventually(lambda: not connections.statistics()["open"])  # noqa: B023
        await _all_left(gateway, eventually)
    assert not garbage()


async def test_silent_endpoint_is_given_up(start_gateway, endpoint, eventually, garbage):
    """It sends no head in time, and a request is taken to another."""
    gateway = await start_gateway(endpoint, timeout_s=0.02, settings={"endpoints_ejection_failures": 0})
    for _ in range(TIMES):
        assert (await gateway.ask()).status == 504
        await _all_left(gateway, eventually)
    assert not garbage()


async def test_another_endpoint_is_tried(start_gateway, start_endpoint, eventually, garbage):
    """The first resets each connection, the second answers."""
    failing = await start_endpoint(behave=lambda call: call.reset())
    working = await start_endpoint(b"ok")
    settings = {"endpoints_ejection_failures": 0, "endpoints_retries": 1}
    gateway = await start_gateway(failing, working, settings=settings)
    for _ in range(TIMES):
        await gateway.ask()
        await _all_left(gateway, eventually)
    assert not garbage()


@pytest.fixture
async def verified(start_gateway, start_endpoint):
    """A gateway, and an endpoint behind TLS."""
    certificate = self_signed("127.0.0.1").context
    endpoint = await start_endpoint(tls=certificate)
    gateway = await start_gateway(settings={"endpoints_retries": 0, "endpoints_ejection_failures": 0})
    gateway.serve([endpoint], tls=routing.Tls(is_verified=False))
    return gateway, endpoint


@pytest.mark.parametrize("way", ["close", "reset", "stay"])
async def test_endpoint_behind_tls_leaves(verified, eventually, garbage, way):
    """Amid its answer; or it stays, and the client leaves."""
    gateway, endpoint = verified
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post()
        call = await endpoint.call()
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
        await client.head()
        getattr(call, way, lambda: None)()
        client.close()
        await _all_left(gateway, eventually)
        (connections,) = gateway.shell.all_connections()
        await eventually(lambda: not connections.statistics()["open"])  # noqa: B023
    assert not garbage()


async def test_endpoint_speaks_no_tls(start_gateway, start_endpoint, eventually, garbage):
    """The handshake fails."""
    endpoint = await start_endpoint()
    settings = {"endpoints_connect_timeout_s": 0.05, "endpoints_ejection_failures": 0, "endpoints_retries": 0}
    gateway = await start_gateway(settings=settings)
    gateway.serve([endpoint], tls=routing.Tls(is_verified=False))
    for _ in range(TIMES):
        assert (await gateway.ask()).status == 503
        await _all_left(gateway, eventually)
    assert not garbage()
