"""A WebSocket of the realtime API is one request to the pool of its model."""

import asyncio

import pytest

from headgate import routing

pytestmark = pytest.mark.every_loop
CLOSE = b"\x88\x02\x03\xe8"
CREDENTIALS = "authorization: Bearer {}\r\n"


async def test_bytes_pass_as_they_are(start_gateway, sockets, opening, open_session, eventually):
    """The endpoint agrees itself; what it needs for that reaches it, and no offer of compression does."""
    gateway = await start_gateway(sockets)
    client = await gateway.connect()
    offer = "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: realtime\r\n"
    client.send(opening(more=offer + "x-gateway-secret: 1\r\n"))
    head = await client.head()
    assert head.status == 101
    assert head.header("connection") == "Upgrade"
    assert head.header("upgrade") == "websocket"
    assert head.header("Sec-WebSocket-Accept") == "y" or head.header("sec-websocket-accept") == "y"
    assert head.header("x-request-id")
    [peer] = sockets.peers
    sent = peer.head.lower()
    assert sent.startswith(b"get /v1/realtime?model=m http/1.1\r\n")
    assert b"\r\nconnection: upgrade\r\nupgrade: websocket" in sent
    assert b"\r\nsec-websocket-key: dghlihnhbxbszsbub25jzq==" in sent
    assert b"\r\nsec-websocket-protocol: realtime" in sent
    assert b"extensions" not in sent
    assert b"secret" not in sent
    assert b"content-length" not in sent
    for data in (b"\x81\x01a", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100):
        client.send(data)
        assert await client.reader.readexactly(len(data)) == data


async def test_it_is_in_flight_until_the_endpoint_closes(start_gateway, sockets, open_session, eventually):
    """And is then served, with the bytes of both sides."""
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    assert gateway.shell.plane.ledger.statistics()["requests"] == 1
    client.send(b"\x81\x05hello")
    assert await client.reader.readexactly(7) == b"\x81\x05hello"
    sockets.peers[0].transport.write(CLOSE)
    sockets.peers[0].transport.close()
    assert await client.rest() == CLOSE
    await gateway.idle()
    [line] = gateway.log_lines()
    assert "GET /v1/realtime HTTP/1.1" in line
    assert " 101 " in line
    labels = {"model": "m", "code": "101", "outcome": "served"}
    assert gateway.metric("headgate_gateway_requests_total", **labels) == 1
    assert gateway.metric("headgate_gateway_body_bytes_total", direction="out") == 7 + len(CLOSE)
    assert gateway.metric("headgate_gateway_body_bytes_total", direction="in") == 7


async def test_a_client_that_leaves_ends_it(start_gateway, sockets, open_session):
    """The endpoint learns at once, and is not blamed."""
    gateway = await start_gateway(sockets)
    gateway.move(0)
    client = await open_session(gateway)
    gateway.move(200)
    client.close()
    await asyncio.wait_for(sockets.peers[0].lost.wait(), 10)
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total", outcome="client_gone") == 1
    [load] = next(iter(gateway.shell.plane.pools.values())).loads
    assert (load.failures, load.hanging) == (0, 0)


@pytest.mark.parametrize("how", ["abort", "close"])
@pytest.mark.parametrize("sent", [b"\x81\x01a", b"\x81\x05he"])
async def test_an_endpoint_that_breaks_off_is_blamed(start_gateway, sockets, open_session, how, sent):
    """If neither side has sent a close frame, its process died. The client gets one, where there is room."""
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    peer = sockets.peers[0].transport
    peer.write(sent)
    assert await client.reader.readexactly(len(sent)) == sent
    getattr(peer, how)()
    end = await client.rest()
    assert end == (b"\x88\x18\x03\xf6the endpoint broke off" if len(sent) == 3 else b"")
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total", outcome="upstream_lost") == 1
    [load] = next(iter(gateway.shell.plane.pools.values())).loads
    assert load.failures == 1


async def test_an_endpoint_that_only_closes_after_its_client_said_so(
    start_gateway, sockets, open_session, eventually
):
    """Is not to blame: the session was over."""
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    sockets.echoes = False
    client.send(b"\x88\x82abcd\x62\x8a")
    await eventually(lambda: len(sockets.peers[0].received) == 8)
    sockets.peers[0].transport.close()
    assert await client.rest() == b""
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total", outcome="served") == 1


async def test_an_idle_one_is_closed(start_gateway, sockets, open_session):
    """With a close frame that says so; one in which anything is sent is not."""
    gateway = await start_gateway(sockets, settings={"endpoints_stream_idle_timeout_s": 60.0})
    gateway.move(0)
    client = await open_session(gateway)
    (connection,) = gateway.shell.clients.all
    gateway.move(50)
    client.send(b"\x89\x00")
    assert await client.reader.readexactly(2) == b"\x89\x00"
    gateway.move(50)
    connection.sweep(gateway.shell.now())
    client.send(b"\x89\x00")
    assert await client.reader.readexactly(2) == b"\x89\x00"
    gateway.move(61)
    connection.sweep(gateway.shell.now())
    end = await client.rest()
    assert end[:4] == b"\x88" + bytes((len(end) - 2,)) + (1001).to_bytes(2, "big")
    assert b"60 s" in end
    await asyncio.wait_for(sockets.peers[0].lost.wait(), 10)


async def test_within_a_frame_there_is_no_close_frame(start_gateway, sockets, open_session):
    """The client would take it for a part of that."""
    gateway = await start_gateway(sockets)
    gateway.move(0)
    client = await open_session(gateway)
    sockets.peers[0].transport.write(b"\x81\x05he")
    assert await client.reader.readexactly(4) == b"\x81\x05he"
    (connection,) = gateway.shell.clients.all
    gateway.move(10_000)
    connection.sweep(gateway.shell.now())
    assert await client.rest() == b""


async def test_a_drain_lets_it_go_on_and_then_closes_it(start_gateway, sockets, open_session):
    """With the code for a server that goes away."""
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    assert await gateway.shell.drain(0.05) == 1
    client.send(b"\x81\x01a")
    assert await client.reader.readexactly(3) == b"\x81\x01a"
    gateway.shell.clients.abort()
    end = await client.rest()
    assert end[2:4] == (1001).to_bytes(2, "big")
    assert b"shutting down" in end


async def test_a_gateway_that_drains_opens_none(start_gateway, sockets, opening, open_session):
    """Its clients connect to another one. Before, while load balancers still send requests, it does."""
    gateway = await start_gateway(sockets)
    gateway.shell.leave()
    await open_session(gateway)
    client = await gateway.connect()
    gateway.shell.services.shutdown.is_draining = True
    client.send(opening())
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (503, "shutting_down")


async def test_a_slow_side_slows_the_other(start_gateway, start_sockets, open_session, eventually):
    """No more than the buffers of both connections is held."""
    sockets = await start_sockets(echoes=False)
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    peer = sockets.peers[0]
    peer.transport.pause_reading()
    (connection,) = gateway.shell.clients.all
    sent = 0
    piece = b"x" * 65536
    async with asyncio.timeout(20):
        while sent < 64 << 20:
            client.send(piece)
            sent += len(piece)
            try:
                await asyncio.wait_for(client.writer.drain(), 0.3)
            except TimeoutError:
                break
    taken = connection.exchange.life.account.bytes_in
    assert taken < sent
    peer.transport.resume_reading()
    await eventually(lambda: len(peer.received) == sent)


async def test_another_is_tried_before_it_opens(start_gateway, start_endpoint, start_sockets, open_session):
    """As for any request."""
    gone, there = await start_endpoint(), await start_sockets()
    await gone.stop()
    gateway = await start_gateway(gone, there)
    client = await open_session(gateway)
    assert len(there.peers) == 1
    client.send(b"\x81\x01a")
    assert await client.reader.readexactly(3) == b"\x81\x01a"


async def test_what_the_endpoint_says_instead_passes(start_gateway, start_sockets, opening):
    """A response other than 101 is one, and the connection ends with it."""
    sockets = await start_sockets(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")
    gateway = await start_gateway(sockets)
    client = await gateway.connect()
    client.send(opening())
    response = await client.response()
    assert (response.status, response.body) == (403, b"no")
    assert await client.is_closed()


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nno",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        + b"x: y\r\n" * 300
        + b"\r\n",
    ],
)
async def test_nonsense_of_the_endpoint_is_refused(start_gateway, start_sockets, opening, response):
    """With 502, as for any response that is not valid."""
    gateway = await start_gateway(await start_sockets(response))
    client = await gateway.connect()
    client.send(opening())
    assert (await client.response()).status == 502


async def test_other_responses_may_not_switch(gateway, endpoint):
    """A request that asks for no other protocol gets none."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    assert (await client.response()).json["error"]["code"] == "upstream_invalid"


async def test_it_counts_as_a_connection(start_gateway, sockets, opening, open_session):
    """Of all clients, and of its address."""
    gateway = await start_gateway(sockets, settings={"clients_max_connections_per_address": 1})
    await open_session(gateway)
    other = await gateway.connect()
    assert (await other.response()).status == 503
    assert len(gateway.shell.clients) == 1


async def test_limits_count_the_tokens_of_all_answers(start_gateway, sockets, open_session, eventually):
    """Reserved when it opens, and settled at its end."""
    limits = routing.TokenLimits(input=100, unit="month", unit_s=30 * 86_400)
    gateway = await start_gateway(sockets, limits=limits)
    client = await open_session(gateway)
    for tokens in (30, 60):
        event = (
            b'{"type":"response.done","response":{"usage":{"input_tokens":%d,"output_tokens":9}}}' % tokens
        )
        frame = bytes((0x81, len(event))) + event
        sockets.peers[0].transport.write(frame)
        await client.reader.readexactly(len(frame))
    sockets.peers[0].transport.close()
    await client.rest()
    await gateway.idle()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    assert [account.used for account in limit.accounts()] == [90]


async def test_it_is_read_however_busy_the_loop_was(start_gateway, sockets, open_session):
    """The request waited for its turn, with reading paused; the session goes on."""
    gateway = await start_gateway(sockets)
    loop, uploads = asyncio.get_running_loop(), gateway.shell.services.turns.uploads
    is_busy = True

    def spend():
        if is_busy:
            uploads.spent(1.0)
            loop.call_soon(spend)

    spend()
    client = await open_session(gateway)
    is_busy = False
    client.send(b"\x81\x01a")
    async with asyncio.timeout(10):
        assert await client.reader.readexactly(3) == b"\x81\x01a"
    client.close()
    await asyncio.wait_for(sockets.peers[0].lost.wait(), 10)


async def test_it_keeps_the_place_of_its_connection(start_gateway, sockets, opening):
    """Also where there are more connections than a lower limit allows: it is swept, and ends with the
    gateway."""
    gateway = await start_gateway(sockets)
    client, other = await gateway.connect(), await gateway.connect()
    other.send(b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n")
    await other.response()
    client.send(b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n")
    await client.response()
    gateway.shell.change(gateway.shell.settings.replace(clients_max_connections=1))
    client.send(opening())
    assert (await client.head()).status == 101
    assert len(gateway.shell.clients.all) == 2
    assert any(each.exchange is not None for each in gateway.shell.clients.all)


def done(tokens, made=9):
    """The event at the end of a response."""
    usage = b'{"type":"response.done","response":{"usage":{"input_tokens":%d,"output_tokens":%d}}}'
    return usage % (tokens, made)


async def counted(gateway, eventually, tokens):
    """The limit, once this is used of its output."""
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    await eventually(lambda: limit.accounts()[0].used == tokens)
    return limit


@pytest.mark.parametrize("says_goodbye", [True, False])
@pytest.mark.parametrize("before", [0, 60])
async def test_a_response_that_is_cut_off_is_counted(
    start_gateway, start_sockets, open_session, eventually, before, says_goodbye
):
    """By the pieces that were sent of it: who leaves before its end does not get it for nothing."""
    sockets = await start_sockets(echoes=False)
    limits = routing.TokenLimits(output=1000, unit="month", unit_s=30 * 86_400)
    gateway = await start_gateway(sockets, limits=limits)
    client = await open_session(gateway)
    events = [done(5, before)] if before else []
    events += [b'{"type":"response.output_text.delta","delta":"word"}'] * 30
    sent = b"".join(bytes((0x81, len(event))) + event for event in events)
    sockets.peers[0].transport.write(sent)
    await client.reader.readexactly(len(sent))
    if says_goodbye:
        client.send(b"\x88\x80mask")
        sockets.peers[0].transport.write(b"\x88\x00")
        sockets.peers[0].transport.close()
        await client.rest()
    client.close()
    await gateway.idle()
    await counted(gateway, eventually, before + 30)


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_session_without_tokens_is_closed(
    start_gateway, start_sockets, opening, open_session, eventually, is_cut
):
    """Its tokens count as its responses end. With the last one of a limit it gets a close frame that says
    when to come back, behind the event that used it; the next session is refused."""
    sockets = await start_sockets(echoes=False)
    limits = routing.TokenLimits(output=100, unit="month", unit_s=30 * 86_400)
    gateway = await start_gateway(sockets, limits=limits)
    client = await open_session(gateway)
    (peer,) = sockets.peers
    sent, used = b"", 0
    for tokens in (60, 60):
        assert not peer.lost.is_set()
        event = done(5, tokens)
        frame = bytes((0x81, len(event))) + event
        if is_cut:  # within the counts, with a ping between
            place = event.index(b"output_tokens") + 5
            frame = bytes((0x01, place)) + event[:place] + b"\x89\x01p"
            frame += bytes((0x80, len(event) - place)) + event[place:]
        sent += frame
        peer.transport.write(frame)
        used += tokens
        limit = await counted(gateway, eventually, used)
    rest = await client.rest()
    assert rest.startswith(sent)
    close = rest[len(sent) :]
    assert (close[0], int.from_bytes(close[2:4], "big")) == (0x88, 1013)
    assert close[4:].startswith(b"no output tokens are left of 100 per month: try again in ")
    await asyncio.wait_for(peer.lost.wait(), 30)
    await gateway.idle()
    assert [(account.used, account.refused) for account in limit.accounts()] == [(120, 1)]
    other = await gateway.connect()
    other.send(opening())
    assert (await other.response()).status == 429


async def test_sessions_share_a_limit(start_gateway, sockets, open_session):
    """Of two sessions, one uses it up; the other ends after its next response."""
    limits = routing.TokenLimits(output=1000, unit="month", unit_s=30 * 86_400)
    gateway = await start_gateway(sockets, limits=limits)
    first, second = await open_session(gateway), await open_session(gateway)
    for client, peer in ((first, sockets.peers[0]), (second, sockets.peers[1])):
        event = done(5, 1500)
        peer.transport.write(bytes((0x81, len(event))) + event)
        assert (await client.rest())[2 + len(event)] == 0x88
    await gateway.idle()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    assert [account.used for account in limit.accounts()] == [3000]


async def test_a_client_that_goes_on_sending_learns_why_it_ended(
    start_gateway, start_sockets, open_session, eventually
):
    """What it sends meanwhile is discarded: a reset might overtake the close frame. It can do so for a
    second."""
    sockets = await start_sockets(echoes=False)
    gateway = await start_gateway(sockets)
    gateway.move(0)
    client = await open_session(gateway)
    (connection,) = gateway.shell.clients.all
    connection.exchange.close(1008, "revoked", gateway.shell.now())
    assert await client.rest() == b"\x88\x09\x03\xf0revoked"
    for _ in range(3):  # a reset would be told with the second at the latest
        client.send(b"\x81\x01a")
        await client.writer.drain()
        await asyncio.sleep(0.01)
    assert not client.writer.transport.is_closing()
    await gateway.idle()
    assert connection in gateway.shell.clients.all
    gateway.move(1.5)
    connection.sweep(gateway.shell.now())
    await eventually(lambda: not gateway.shell.clients.all)


async def test_it_ends_where_its_endpoint_has_ended_a_frame(
    start_gateway, start_sockets, open_session, eventually
):
    """So that there is room for the close frame."""
    sockets = await start_sockets(echoes=False)
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    (connection,) = gateway.shell.clients.all
    sockets.peers[0].transport.write(b"\x81\x05he")
    assert await client.reader.readexactly(4) == b"\x81\x05he"
    connection.exchange.end(1008, "revoked", gateway.shell.now())
    sockets.peers[0].transport.write(b"llo")
    assert await client.rest() == b"llo\x88\x09\x03\xf0revoked"
    client.close()
    await eventually(lambda: not gateway.shell.clients.all)


async def test_it_does_not_wait_for_ever_for_the_end_of_a_frame(start_gateway, start_sockets, open_session):
    """The second time, it ends within one."""
    sockets = await start_sockets(echoes=False)
    gateway = await start_gateway(sockets)
    client = await open_session(gateway)
    (connection,) = gateway.shell.clients.all
    sockets.peers[0].transport.write(b"\x81\x05he")
    assert await client.reader.readexactly(4) == b"\x81\x05he"
    session = connection.exchange
    for _ in range(2):
        session.end(1008, "revoked", gateway.shell.now())
    assert await client.rest() == b""
