"""However an HTTP/2 connection to an endpoint ends, it is freed at once, without a garbage collection."""

import pytest

pytestmark = pytest.mark.every_loop

TIMES = 3


def _half_an_answer(call) -> None:
    call.head(200, content_length="10")
    call.write(b"01234")
    call.reset()


ENDS = {
    "answers": lambda call: call.answer(b"{}"),
    "answers and leaves": lambda call: (call.answer(b"{}"), call.connection.goaway(call.id)),
    "answers and closes": lambda call: (call.answer(b"{}"), call.connection.transport.close()),
    "resets the stream": lambda call: call.reset(),
    "breaks off": _half_an_answer,
    "does not take it": lambda call: call.connection.goaway(0),
    "closes": lambda call: call.connection.transport.abort(),
    "sends no frames": lambda call: call.connection.transport.write(b"\0" * 30),
    "sends HTTP/1.1": lambda call: call.connection.transport.write(b"HTTP/1.1 200 OK\r\n\r\n"),
    "sends no status": lambda call: call.head(99),
}


@pytest.fixture
async def start(start_gateway, start_http2_endpoint):
    """A gateway and its HTTP/2 endpoint."""

    async def start(behave=None):
        endpoint = await start_http2_endpoint(behave)
        gateway = await start_gateway(settings={"endpoints_retries": 0, "endpoints_ejection_failures": 0})
        gateway.serve([endpoint], http2=True)
        return gateway, endpoint

    return start


async def _all_closed(gateway, eventually) -> None:
    await gateway.idle()
    await eventually(lambda: not gateway.shell.clients.all)
    (connections,) = gateway.shell.all_connections()
    for _ in range(6):
        connections.sweep()
    await eventually(lambda: not connections.statistics()["open"])


@pytest.mark.parametrize("behave", ENDS.values(), ids=ENDS)
async def test_endpoint_ends_it(start, eventually, garbage, behave):
    """Well or badly; a connection that is kept is closed once it has been idle for a while."""
    gateway, _ = await start(behave)
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post()
        await client.head()
        client.close()
        await _all_closed(gateway, eventually)
    assert not garbage()


async def test_client_leaves(start, eventually, garbage):
    """While its endpoint works, with a body of which not all is sent."""
    gateway, endpoint = await start()
    for _ in range(TIMES):
        client = await gateway.connect()
        client.post(b'{"model":"m","prompt":"%b"}' % (b"x" * 1_000_000))
        await eventually(lambda: endpoint.connections and endpoint.connections[-1].streams)
        client.close()
        await _all_closed(gateway, eventually)
        endpoint.connections.clear()
    assert not garbage()


async def test_endpoint_is_not_there(start, start_gateway, eventually, garbage):
    """Its port is closed: a connection was never made."""
    gateway, endpoint = await start()
    await endpoint.stop()
    for _ in range(TIMES):
        assert (await gateway.ask()).status == 503
        await _all_closed(gateway, eventually)
    assert not garbage()
