"""The request bodies in a worker have a common memory limit: beyond it, new ones get 503 unread."""

import asyncio
import contextlib
import json

import pytest

from headgate import loop_turns as turns
from headgate import routing
from headgate.gateway import GatewaySettings, settings
from headgate.gateway.gauges import add_gauges
from headgate.simulator.server.tls import self_signed

pytestmark = pytest.mark.every_loop

LONG = 190_000
BOUNDS = {"clients_max_body_bytes": 200_000, "clients_max_bodies_bytes": 800_000}
"""Of which long bodies may take 700,000 bytes: three of them and a part of a fourth."""
CODE = "too_many_body_bytes"


def _head(length: int, path: str = "/v1/chat/completions", lines: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: g\r\n{lines}content-length: {length}\r\n\r\n".encode()


def _body(length: int) -> bytes:
    body = b'{"model":"m","prompt":""}'
    return body[:-2] + b"x" * (length - len(body)) + body[-2:]


@pytest.fixture
async def bounded(start_gateway, endpoint):
    """A gateway with these bounds before an endpoint."""
    return await start_gateway(endpoint, settings=BOUNDS)


@pytest.fixture
def holding(eventually):
    """Waits until a gateway holds so much."""

    async def wait(gateway, size: int) -> None:
        await eventually(lambda: gateway.shell.services.bodies.held == size)

    return wait


async def _begin(gateway, holding, count: int, length: int = LONG, sent: int = LONG - 1):
    """Clients that have sent so much of bodies of this length."""
    held, clients = gateway.shell.services.bodies.held, []
    for _ in range(count):
        client = await gateway.connect()
        client.send(_head(length) + _body(length)[:sent])
        held += sent
        await holding(gateway, held)
        clients.append(client)
    return clients


async def _is_refused(client) -> None:
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (503, CODE)
    assert response.header("retry-after") == "1"
    assert response.header("connection") == "close"
    assert await client.is_closed()


async def test_long_body_is_refused_before_it_is_sent(bounded, holding):
    """Its client is not told to continue, and learns what to do."""
    await _begin(bounded, holding, 3)
    client = await bounded.connect()
    client.send(_head(LONG, lines="expect: 100-continue\r\n"))
    response = await client.response()
    assert response.status == 503
    assert response.header("retry-after") == "1"
    assert response.json["error"]["type"] == "service_unavailable_error"
    assert "800000 bytes: retry later, or raise clients.max_bodies_bytes" in response.json["error"]["message"]
    assert await client.is_closed()
    assert bounded.metric("headgate_gateway_rejected_total", reason=CODE) == 1
    add_gauges(bounded.registry, bounded.shell)
    assert bounded.metric("headgate_gateway_held_body_bytes") == 3 * (LONG - 1)
    assert bounded.shell.statistics()["bodies"] == {"held_bytes": 3 * (LONG - 1), "limit_bytes": 800_000}


async def test_anthropics_clients_get_their_form(bounded, holding):
    """On its path, the error is one of Anthropic's."""
    await _begin(bounded, holding, 3)
    client = await bounded.connect()
    client.send(_head(LONG, path="/v1/messages"))
    response = await client.response()
    assert response.status == 503
    assert response.json["type"] == "error"
    assert response.json["error"]["type"] == "overloaded_error"


async def test_small_bodies_are_served_meanwhile(bounded, endpoint, holding):
    """An eighth of the memory is theirs alone."""
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    await _begin(bounded, holding, 3)
    await _begin(bounded, holding, 1, 130_003, 130_002)
    for size in (100, 60_000):
        assert (await bounded.ask(_body(size))).body == b"%d" % size


async def test_small_bodies_are_bounded_too(bounded, holding):
    """Nothing is held past the bound, however small each body is."""
    await _begin(bounded, holding, 13, 61_000, 60_000)
    await _begin(bounded, holding, 1, 19_501, 19_500)  # a head that waits for its turn counts, too
    client = await bounded.connect()
    client.send(_head(61_000) + _body(61_000)[:-1])
    await _is_refused(client)
    known = await bounded.connect()
    known.send(_head(1000) + _body(1000))
    await _is_refused(known)


async def test_requests_with_a_known_head_are_bounded_too(bounded, endpoint, holding):
    """On a connection that was used before, whose heads are not parsed again."""
    endpoint.behave = lambda call: call.answer()
    client = await bounded.connect()
    for _ in range(3):
        client.post(_body(1000))
        assert (await client.response()).status == 200
    await _begin(bounded, holding, 13, 61_000, 60_000)
    await _begin(bounded, holding, 1, 19_501, 19_500)  # a head that waits for its turn counts, too
    client.post(_body(1000))
    await _is_refused(client)


async def test_data_that_waits_to_be_parsed_counts(bounded, endpoint, holding, monkeypatch):
    """While the event loop has no time for more chunks, what came of them takes memory like a body."""
    monkeypatch.setattr(turns, "MAX_S", 0.0)
    data = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    data += b"1\r\n \r\n" * 10_000
    clients = [await bounded.connect() for _ in range(13)]
    for place, client in enumerate(clients):
        client.send(data)
        await holding(bounded, (place + 1) * len(data))
    late = await bounded.connect()
    late.send(data)
    await _is_refused(late)
    monkeypatch.undo()
    await holding(bounded, len(clients) * 10_000)
    body = _body(1000)
    endpoint.behave = lambda call: call.answer(call.body)
    for client in clients:
        client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert (await client.response()).body.strip() == body


async def test_announced_bytes_reserve_nothing(bounded, endpoint, eventually):
    """Clients that announce long bodies and send none do not keep others from sending theirs."""
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    for _ in range(20):
        (await bounded.connect()).send(_head(LONG))
    await eventually(lambda: len(bounded.shell.clients.all) == 20)
    assert (await bounded.ask(_body(LONG))).body == b"%d" % LONG


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_bodies_that_grow_past_the_bound_are_refused(bounded, endpoint, eventually, is_chunked):
    """All were admitted when little was held. Those that fit are served; the others get 503."""
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    body = _body(LONG)
    clients = [await bounded.connect() for _ in range(10)]
    pieces = [body[:60_000], body[60_000:120_000], body[120_000:-1], body[-1:]]
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    for place, client in enumerate(clients):
        client.send(head if is_chunked else _head(LONG))
        await eventually(lambda: len(bounded.shell.clients.all) > place)  # noqa: B023
    for piece in pieces:
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
            await asyncio.sleep(0.005)
            assert bounded.shell.services.bodies.held <= 700_000
    for client in clients:
        client.send(b"0\r\n\r\n" if is_chunked else b"")
    statuses = [(await client.response()).status for client in clients]
    assert set(statuses) == {200, 503}
    assert statuses.count(503) == bounded.metric("headgate_gateway_rejected_total", reason=CODE)
    await eventually(lambda: not bounded.shell.services.bodies.held)
    assert (await bounded.ask(_body(LONG))).status == 200


async def test_body_counts_until_its_endpoint_responds(bounded, endpoint, holding):
    """While the endpoint works on it, it may have to be sent again."""
    client = await bounded.connect()
    client.post(_body(LONG))
    call = await endpoint.call()
    await holding(bounded, LONG)
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
    await client.head()
    await holding(bounded, 0)
    call.write(b"k")


async def test_bodies_of_requests_sent_ahead_count(bounded, endpoint, holding):
    """Until their client leaves."""
    client = await bounded.connect()
    client.post(_body(1000))
    await endpoint.call()
    client.post(_body(2000))
    client.post(_body(3000))
    client.send(_head(LONG) + _body(LONG)[:5000])
    await holding(bounded, 1000 + 2000 + 3000 + 5000)
    client.close()
    await holding(bounded, 0)


async def test_queued_bodies_count(start_gateway, endpoint, holding):
    """Those that wait for their turn fill the memory as well."""
    queue = {"queue_enabled": True, "queue_detector": "concurrency-detector", "queue_max_in_flight": 1}
    gateway = await start_gateway(endpoint, settings=BOUNDS | queue)
    clients = [await gateway.connect() for _ in range(3)]
    for place, client in enumerate(clients):
        client.post(_body(LONG))
        await holding(gateway, (place + 1) * LONG)
    late = await gateway.connect()
    late.post(_body(LONG))
    await _is_refused(late)
    endpoint.behave = lambda call: call.answer()
    (await endpoint.call()).answer()
    assert [(await client.response()).status for client in clients] == [200] * 3
    await holding(gateway, 0)


async def test_slow_clients_have_no_longer_time_while_memory_is_short(bounded, holding):
    """They would keep all others from sending long bodies, for half an hour with a few bytes a second."""
    slow = await _begin(bounded, holding, 1)
    (connection,) = bounded.shell.clients.all
    later = bounded.shell.now() + 31
    connection.sweep(later)
    await asyncio.sleep(0.01)
    assert bounded.shell.services.bodies.held == LONG - 1
    fresh = await _begin(bounded, holding, 2)
    for each in bounded.shell.clients.all - {connection}:
        each.sweep(bounded.shell.now() + 29)
    connection.sweep(later)
    await _is_refused(slow[0])
    await holding(bounded, 2 * (LONG - 1))
    assert not any(client.reader.at_eof() for client in fresh)


@pytest.mark.parametrize("is_tls", [True, False])
async def test_endpoint_that_reads_nothing_is_sent_little(start_gateway, start_endpoint, eventually, is_tls):
    """A long body is held once, not once more by the transport; and it arrives when the endpoint reads on."""
    endpoint = await start_endpoint(tls=self_signed("127.0.0.1").context if is_tls else None)
    endpoint.behave = lambda call: call.answer(b"%d" % len(call.body))
    gateway = await start_gateway()
    gateway.serve([endpoint], tls=routing.Tls(is_verified=False) if is_tls else None)
    assert (await gateway.ask()).status == 200
    endpoint.connections[0].transport.pause_reading()
    client = await gateway.connect()
    client.post(_body(30_000_000))
    await eventually(lambda: gateway.shell.services.bodies.held == 30_000_000)
    (connections,) = gateway.shell.all_connections()
    (connection,) = connections._open
    await eventually(lambda: connection.is_sending)
    assert connection._transport.get_write_buffer_size() < 3_000_000
    endpoint.connections[0].transport.resume_reading()
    assert (await client.response()).body == b"30000000"


async def test_body_counts_while_an_endpoint_that_responds_does_not_read_it(bounded, endpoint, eventually):
    """The response has begun, and the gateway still holds what it could not send."""
    endpoint.behave = lambda call: call.answer()
    gateway = bounded
    gateway.shell.change(gateway.shell.settings.replace(**_larger(30_000_000)))
    assert (await gateway.ask()).status == 200
    endpoint.connections[0].transport.pause_reading()
    client = await gateway.connect()
    client.post(_body(30_000_000))
    await eventually(lambda: gateway.shell.services.bodies.held == 30_000_000)
    exchanges = [client.exchange for client in gateway.shell.clients.all if client.exchange is not None]
    await eventually(lambda: [exchange.life.phase for exchange in exchanges] == ["sent"])
    endpoint.connections[0].transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
    await client.head()
    assert gateway.shell.services.bodies.held == 30_000_000
    endpoint.connections[0].transport.write(b"k")
    await eventually(lambda: not gateway.shell.services.bodies.held)


def _larger(size: int) -> dict[str, int]:
    return {"clients_max_body_bytes": size, "clients_max_bodies_bytes": 4 * size}


async def test_long_body_with_another_model_name_is_held_once(start_gateway, start_endpoint, eventually):
    """The endpoint gets all of it, with its own name for the model."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint, model="another-name")
    client = await gateway.connect()
    client.post(_body(LONG))
    assert (await client.response()).status == 200
    assert endpoint.calls[0].json == json.loads(_body(LONG)) | {"model": "another-name"}


def test_bound_has_room_for_the_longest_body():
    """Else no long body would ever be admitted, whatever is held."""
    chosen = GatewaySettings().replace(clients_max_bodies_bytes=33 * 1024 * 1024)
    ((name, why),) = settings.conflicts(chosen)
    assert name == "clients.max_bodies_bytes"
    assert why.startswith("34603008 is too small for one body of 33554432 bytes: raise it to 38347922, or")
    enough = chosen.replace(clients_max_bodies_bytes=38_347_922)
    assert not settings.conflicts(enough)
