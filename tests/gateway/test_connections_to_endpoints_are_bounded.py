"""How many connections an endpoint gets, and how long idle ones are kept."""

import errno

import pytest

pytestmark = pytest.mark.every_loop


async def test_full_endpoint_is_passed_over(start_gateway, start_endpoint):
    """Where all connections to an endpoint are in use, another gets the request, though it has more work."""
    first, second = await start_endpoint(), await start_endpoint()
    gateway = await start_gateway(first, second, settings={"endpoints_max_connections": 1})
    loads = gateway.shell.plane.ledger.loads()
    loads[1].prefill_tokens += 10_000
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post()
    (await first.call()).answer(b"first")
    (await second.call()).answer(b"second")
    assert [(await client.response()).body for client in clients] == [b"first", b"second"]
    loads[1].prefill_tokens -= 10_000


async def test_all_endpoints_are_full(start_gateway, endpoint, eventually):
    """Without a queue, 503 with Retry-After; no failure of the endpoint, which serves as it has room."""
    gateway = await start_gateway(endpoint, settings={"endpoints_max_connections": 2, "queue_enabled": False})
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post()
    calls = [await endpoint.call() for _ in clients]
    response = await gateway.ask()
    assert (response.status, response.header("retry-after")) == (503, "1")
    assert response.json["error"]["code"] == "endpoints_full"
    assert "has 2 requests from this gateway" in response.json["error"]["message"]
    calls[0].answer()
    await clients[0].response()
    clients[0].post()
    (await endpoint.call()).answer(b"room again")
    assert (await clients[0].response()).body == b"room again"
    calls[1].answer()
    assert gateway.shell.plane.ledger.loads()[0].failures == 0
    assert len(endpoint.connections) == 2


async def test_idle_connection_ends_before_the_endpoint_ends_it(gateway, endpoint, eventually):
    """After four seconds without a request, so that none crosses with an engine's hanging up after five."""
    endpoint.behave = lambda call: call.answer()
    await gateway.ask()
    for _ in range(3):
        gateway.shell._sweep()
    await gateway.ask()
    assert len(endpoint.connections) == 1
    for _ in range(3):
        gateway.shell._sweep()
    assert not endpoint.connections[0].lost.done()
    gateway.shell._sweep()
    await endpoint.connections[0].lost
    await gateway.ask()
    assert len(endpoint.connections) == 2


async def test_only_the_oldest_idle_connections_end(gateway, endpoint):
    """Those in use, and those used since, stay."""
    clients = [await gateway.connect() for _ in range(3)]
    for client in clients:
        client.post()
    calls = [await endpoint.call() for _ in clients]
    for place in (0, 1):
        calls[place].answer()
        await clients[place].response()
        for _ in range(2):
            gateway.shell._sweep()
    (first,) = [each for each in endpoint.connections if each.transport is calls[0].transport]
    await first.lost
    assert [each.lost.done() for each in endpoint.connections].count(True) == 1
    calls[2].answer()
    await clients[2].response()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_shortage_of_the_gateway_is_no_failure_of_the_endpoint(gateway, endpoint, monkeypatch, number):
    """Out of descriptors, the gateway answers 503 itself; the endpoint's health is untouched."""
    endpoint.behave = lambda call: call.answer()

    async def fail(*_, **__):
        raise OSError(number, "shortage")

    client = await gateway.connect()
    with monkeypatch.context() as patch:
        patch.setattr(gateway.shell.services.loop, "create_connection", fail)
        client.post()
        response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (503, "gateway_exhausted")
    assert gateway.shell.plane.ledger.loads()[0].failures == 0
    client.post()
    assert (await client.response()).status == 200
