"""Each stream of HTTP/2 is a request, with all that HTTP/1.1 has."""

import asyncio
import json

import pytest
from h2 import events
from h2_peer import connect

from headgate.gateway.http2 import client_streams

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def connected():
    """Connects a client to a gateway."""
    peers = []

    async def start(gateway, **how):
        peers.append(await connect(gateway.port, **how))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
async def peer(gateway, connected):
    return await connected(gateway)


async def test_headers_and_bodies_pass(gateway, endpoint, peer):
    """Those of the connection are the gateway's own."""
    number = peer.post({"model": "m", "prompt": "hello"}, x_one="1", cookie="a=b")
    call = await endpoint.call()
    assert call.json == {"model": "m", "prompt": "hello"}
    assert (call.header("x-one"), call.header("cookie"), call.header("host")) == ("1", "a=b", "gateway")
    call.answer(b"hello", **{"x-engine": "yes", "keep-alive": "timeout=5"})
    assert await peer.response(number) == ("200", b"hello")
    headers = peer.headers(number)
    assert headers["x-engine"] == "yes"
    assert "x-request-id" in headers
    assert not {"keep-alive", "connection", "transfer-encoding"} & headers.keys()


async def test_repeated_requests_use_one_lane(gateway, endpoint, peer):
    """Which is one client connection, and has one connection to the endpoint."""
    endpoint.behave = lambda call: call.answer(b"hello")
    for _ in range(5):
        assert await peer.response(peer.post()) == ("200", b"hello")
    assert len(gateway.shell.clients) == 1
    assert len(endpoint.connections) == 1


async def test_few_lanes_are_kept(gateway, endpoint, peer, eventually):
    """Of those that a burst needs."""
    endpoint.behave = lambda call: call.answer(b"hello")
    numbers = [peer.post() for _ in range(20)]
    for number in numbers:
        assert await peer.response(number) == ("200", b"hello")
    await eventually(lambda: len(gateway.shell.clients) == client_streams.MAX_IDLE)


async def test_events_arrive_one_by_one(gateway, endpoint, peer):
    """Without the framing of HTTP/1.1."""
    number = peer.post({"model": "m", "prompt": "hello", "stream": True})
    call = await endpoint.call()
    call.write(EVENTS)
    sent = b""
    for place in range(3):
        event = b'data: {"n": %d}\n\n' % place
        call.write(b"%x\r\n%b\r\n" % (len(event), event))
        sent += event
        await peer.until(lambda sent=sent: peer.body(number) == sent)
    call.write(b"0\r\n\r\n")
    assert await peer.response(number) == ("200", sent)


async def test_large_bodies_pass_both_ways(gateway, endpoint, peer):
    """Larger than any window and frame."""
    prompt, answer = "x" * 3_000_000, b"y" * 3_000_000
    number = peer.h2.get_next_available_stream_id()
    data = json.dumps({"model": "m", "prompt": prompt}).encode()
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", "/v1/completions"), (":authority", "g")]
    peer.h2.send_headers(number, pseudo)
    while data:
        size = min(peer.h2.local_flow_control_window(number), 16_384, len(data))
        if size:
            peer.h2.send_data(number, data[:size], end_stream=size == len(data))
            data = data[size:]
        peer.flush()
        await asyncio.sleep(0)
    call = await endpoint.call()
    assert call.json["prompt"] == prompt
    call.answer(answer)
    status, body = await peer.response(number)
    assert (status, body == answer) == ("200", True)


async def test_a_slow_client_holds_up_its_stream_alone(gateway, endpoint, eventually, connected):
    """The endpoint is not read on, and other streams are served."""
    peer = await connected(gateway, acknowledges=False)
    slow = peer.post({"model": "m", "prompt": "hello", "stream": True})
    call = await endpoint.call()
    call.write(EVENTS)
    event = b"data: %b\n\n" % (b"x" * 4000)
    framed = b"%x\r\n%b\r\n" % (len(event), event)
    for _ in range(100):
        call.write(framed * 100)
        await asyncio.sleep(0)
        if call.transport.get_write_buffer_size() > 1 << 20:
            break
    await eventually(lambda: len(peer.body(slow)) >= 65_535)
    statistics = gateway.shell.clients.http2.statistics()
    assert call.transport.get_write_buffer_size() > 0
    assert statistics["held_bytes"] < 1 << 20
    peer.h2.increment_flow_control_window(1 << 20)
    other = peer.post()
    (await endpoint.call()).answer(b"hello")
    assert await peer.response(other) == ("200", b"hello")


async def test_a_cancelled_stream_stops_its_endpoint(gateway, endpoint, peer, eventually):
    """At once, and no other stream."""
    first, second = peer.post(), peer.post()
    calls = [await endpoint.call() for _ in range(2)]
    peer.h2.reset_stream(first, 8)
    peer.flush()
    await eventually(lambda: sum(each.lost.done() for each in endpoint.connections) == 1)
    (left,) = (call for call in calls if not call.transport.is_closing())
    left.answer(b"hello")
    assert await peer.response(second) == ("200", b"hello")
    await gateway.idle()


async def test_a_lost_connection_stops_all(gateway, endpoint, peer, eventually):
    for _ in range(3):
        peer.post()
    for _ in range(3):
        await endpoint.call()
    peer.writer.transport.abort()
    await eventually(lambda: all(each.lost.done() for each in endpoint.connections))
    await eventually(lambda: not len(gateway.shell.clients))


async def test_a_broken_response_resets_its_stream(gateway, endpoint, peer):
    """It does not look complete."""
    number = peer.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    await peer.until(lambda: peer.body(number) == b"half")
    call.reset()
    await peer.until(lambda: peer.of(number, events.StreamReset))
    assert not peer.of(number, events.StreamEnded)


async def test_responses_without_a_length_end(gateway, endpoint, peer):
    """With the connection to the endpoint."""
    number = peer.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
    call.close()
    assert await peer.response(number) == ("200", b"hello")


async def test_the_gateways_own_pages(gateway, peer):
    """HEAD has no content, and errors have the form of the API."""
    assert (await peer.response(peer.get("/healthz")))[0] == "200"
    head = peer.get("/v1/models", "HEAD")
    assert await peer.response(head) == ("200", b"")
    assert int(peer.headers(head)["content-length"]) > 0
    status, body = await peer.response(peer.post({"model": "unknown"}))
    assert (status, json.loads(body)["error"]["code"]) == ("404", "model_not_found")


async def test_bodies_may_be_announced(gateway, endpoint, peer):
    """A client that waits for 100 (Continue) gets it."""
    number = peer.post(b"", ends=False, expect="100-continue")
    await peer.until(lambda: peer.of(number, events.InformationalResponseReceived))
    peer.h2.send_data(number, b'{"model": "m"}', end_stream=True)
    peer.flush()
    (await endpoint.call()).answer(b"hello")
    assert await peer.response(number) == ("200", b"hello")


async def test_an_idle_connection_ends(gateway, peer, eventually):
    """After the same time as with HTTP/1.1, and it says so first."""
    await peer.response(peer.get("/healthz"))
    gateway.move(gateway.shell.settings.clients.keep_alive_s + 1)
    gateway.shell.clients.sweep(gateway.shell.now())
    await peer.until(lambda: peer.is_closed)
    assert peer.is_told_to_leave
    await eventually(lambda: not len(gateway.shell.clients))


async def test_cancelling_does_not_end_the_connection(gateway, endpoint, peer):
    """Though its only lane went."""
    number = peer.post()
    await endpoint.call()
    peer.h2.reset_stream(number, 8)
    peer.flush()
    assert (await peer.response(peer.get("/healthz")))[0] == "200"


async def test_draining_lets_requests_end(gateway, endpoint, peer):
    """GOAWAY comes at once; what was begun is served, then the connection ends."""
    number = peer.post()
    call = await endpoint.call()
    draining = asyncio.create_task(gateway.shell.drain(20.0))
    await peer.until(lambda: peer.is_told_to_leave)
    call.answer(b"hello")
    assert await peer.response(number) == ("200", b"hello")
    await peer.until(lambda: peer.is_closed)
    assert await draining == 0


async def test_an_idle_connection_is_drained(gateway, peer):
    await peer.response(peer.get("/healthz"))
    assert await gateway.shell.drain(20.0) == 0
    await peer.until(lambda: peer.is_closed)


async def test_requests_count_as_clients(start_gateway, endpoint, connected):
    """One too many is told so, and its connection stays."""
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 2})
    peer = await connected(gateway)
    numbers = [peer.post() for _ in range(2)]
    calls = [await endpoint.call() for _ in range(2)]
    status, body = await peer.response(peer.post())
    assert (status, json.loads(body)["error"]["code"]) == ("503", "too_many_clients")
    for call in calls:
        call.answer(b"hello")
    for number in numbers:
        assert await peer.response(number) == ("200", b"hello")


async def test_a_connection_too_many_is_refused(start_gateway, endpoint, connected):
    """Of those that are in use, none has to go."""
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 1})
    first = await connected(gateway)
    number = first.post()
    call = await endpoint.call()
    second = await connected(gateway)
    await second.until(lambda: second.is_closed)
    call.answer(b"hello")
    assert await first.response(number) == ("200", b"hello")


async def test_an_idle_connection_makes_room(start_gateway, endpoint, connected):
    gateway = await start_gateway(endpoint, settings={"clients_max_connections": 1})
    first = await connected(gateway)
    await first.response(first.get("/healthz"))
    second = await connected(gateway)
    assert (await second.response(second.get("/healthz")))[0] == "200"
    await first.until(lambda: first.is_closed)


async def test_slow_bodies_are_given_up(gateway, peer):
    """As with HTTP/1.1: the client is told why."""
    number = peer.post(b"{", ends=False)
    await asyncio.sleep(0.05)
    gateway.move(gateway.shell.settings.clients.receive_timeout_s + 5)
    gateway.shell.clients.sweep(gateway.shell.now())
    await peer.until(lambda: peer.of(number, events.StreamEnded) or peer.of(number, events.StreamReset))
    assert peer.headers(number)[":status"] == "408"


async def test_operators_see_streams(gateway, endpoint, peer):
    """Each as a request in flight."""
    from headgate.gateway import in_flight

    for _ in range(3):
        peer.post()
    calls = [await endpoint.call() for _ in range(3)]
    shown = in_flight.requests(gateway.shell)
    assert shown["total"] == 3
    assert {each["client"] for each in shown["requests"]} == {"127.0.0.1"}
    for call in calls:
        call.answer(b"hello")
