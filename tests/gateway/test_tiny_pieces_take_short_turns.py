"""Tens of thousands of tiny chunks, events and requests do not block the event loop."""

import asyncio
from collections import Counter

import hypothesis
import pytest
from hypothesis import strategies

from headgate import loop_turns as turns
from headgate.gateway.reader import RequestReader
from headgate.gateway.upstream import UpstreamConnection

pytestmark = pytest.mark.every_loop

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n"


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by `.step` seconds each time it is read."""

    class Clock:
        now = step = 0.0

        def __call__(self):
            self.now += self.step
            return self.now

    clock = Clock()
    monkeypatch.setattr(turns, "perf_counter", clock)
    return clock


@hypothesis.given(strategies.integers(0, 300_000), strategies.floats(0, 0.01))
def test_no_byte_is_lost(length, step):
    """The pieces and what is left are the data, however long each piece takes."""
    data = bytes(range(256)) * (length // 256 + 1)
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        ticks = iter(float(step) * number for number in range(1_000_000))
        patch.setattr(turns, "perf_counter", lambda: next(ticks))
        rest = turns.read_in_turn(data, lambda piece, more: taken.append((piece, more)) or True)
    assert b"".join(piece for piece, _ in taken) + rest == data
    assert [more for _, more in taken] == [True] * (len(taken) - 1) + [bool(rest)]


def test_slow_pieces_end_the_turn(clock):
    """Pieces that take a millisecond each are as short as the first, and few."""
    clock.step = 0.001
    taken = []
    rest = turns.read_in_turn(b"x" * 100_000, lambda piece, more: taken.append(len(piece)) or True)
    assert taken == [turns.FIRST_BYTES] * 3
    assert len(rest) == 100_000 - sum(taken)


def test_quick_pieces_grow(clock):
    """Data that costs nothing is read in a few pieces."""
    taken = []
    assert turns.read_in_turn(b"x" * 100_000, lambda piece, more: taken.append(piece) or True) == b""
    assert len(taken) <= 12


async def test_the_first_piece_is_longer_where_nobody_waits(clock):
    """An answer of 10 KB is written in two pieces; while others wait, each gets a short one."""
    shared = turns.Turns(asyncio.get_running_loop())
    taken = []

    def take(piece, more):
        taken.append(len(piece))
        return True

    assert shared.read(b"x" * 10_000, take, turns.AT_ONCE_BYTES) == b""
    assert taken == [4096, 5904]
    shared.wait(lambda: False)
    taken.clear()
    shared.read(b"x" * 10_000, take, turns.AT_ONCE_BYTES)
    assert taken[0] == turns.FIRST_BYTES


@pytest.fixture
def one_piece_a_turn(monkeypatch):
    """As on a machine on which each piece takes long."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(turns, "QUICK_S", 0.0)


async def test_an_answer_in_tiny_chunks_arrives_whole(one_piece_a_turn, gateway, endpoint):
    """Each turn reads a piece; the client gets every chunk, and the connection is kept."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    endpoint.behave = lambda call: call.write(head + chunks)
    client = await gateway.connect()
    for _ in range(2):
        client.post()
        assert (await client.head()).status == 200
        assert await client.reader.readexactly(len(chunks)) == chunks
    assert endpoint.calls[0].transport is endpoint.calls[1].transport


@pytest.mark.counts_calls
async def test_answers_in_tiny_chunks_take_turns(monkeypatch, one_piece_a_turn, gateway, endpoint):
    """Where a piece takes as long as a turn may, one endpoint's answer goes on in each turn of the loop."""
    loop = asyncio.get_running_loop()
    turn, found = 0, Counter()
    read_on = UpstreamConnection._read_on

    def next_turn():
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def counted(connection):
        found[turn] += 1
        return read_on(connection)

    next_turn()
    monkeypatch.setattr(UpstreamConnection, "_read_on", counted)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"
    endpoint.behave = lambda call: call.write(head + chunks)

    async def ask():
        client = await gateway.connect()
        client.post()
        await client.head()
        assert await client.reader.readexactly(len(chunks)) == chunks

    await asyncio.gather(*(ask() for _ in range(12)))
    assert found.total() >= 12
    assert max(found.values()) == 1


async def test_bytes_behind_an_answer_are_nobodys(one_piece_a_turn, gateway, endpoint):
    """A connection whose endpoint goes on after its answer is not used again."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    forged = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"
    endpoint.behave = lambda call: call.write(answer + forged * 1000)
    for _ in range(3):
        client = await gateway.connect()
        client.post()
        response = await client.response()
        assert (response.status, response.body) in ((200, b"ok"), (502, response.body))
        assert b"forged" not in response.body
    assert len({call.transport for call in endpoint.calls}) == len(endpoint.calls)


async def test_a_body_in_tiny_chunks_arrives_whole(one_piece_a_turn, gateway, endpoint):
    """The endpoint gets what the client's chunks add up to."""
    body = b'{"model":"m","prompt":"' + b"y" * 20_000 + b'"}'
    client = await gateway.connect()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    client.send(head + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
    call = await endpoint.call()
    assert call.body == body
    call.answer()
    assert (await client.response()).status == 200


@pytest.mark.counts_calls
async def test_requests_sent_ahead_take_turns_with_others(one_piece_a_turn, gateway, endpoint):
    """A flood of requests that the gateway answers itself does not come before everybody else's."""
    endpoint.behave = lambda call: call.answer()
    flood, other = await gateway.connect(), await gateway.connect()
    answered = []
    take = turns.read_in_turn

    def counted(data, *rest):
        answered.append(len(data))
        return take(data, *rest)

    gateway_turns = pytest.MonkeyPatch()
    gateway_turns.setattr(turns, "read_in_turn", counted)
    with gateway_turns.context():
        flood.send(b"GET /nope HTTP/1.1\r\nhost: g\r\n\r\n" * 2000)
        other.post()
        assert (await other.response()).status == 200
        for _ in range(2000):
            assert (await flood.response()).status == 404
    gateway_turns.undo()
    assert len(answered) >= 20


@pytest.fixture
async def parsed(monkeypatch):
    """Bytes that were parsed, by turn of the event loop."""
    loop = asyncio.get_running_loop()
    turn, found = 0, Counter()
    feed, begin, receive = RequestReader.feed, RequestReader.begin, UpstreamConnection._receive

    def next_turn():
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def fed(reader, data):
        found[turn] += len(data)
        return feed(reader, data)

    def begun(reader, data):
        read, refusal = begin(reader, data)
        found[turn] += read
        return read, refusal

    def received(connection, data):
        found[turn] += len(data)
        return receive(connection, data)

    next_turn()
    monkeypatch.setattr(RequestReader, "feed", fed)
    monkeypatch.setattr(RequestReader, "begin", begun)
    monkeypatch.setattr(UpstreamConnection, "_receive", received)
    return found


AHEAD = b"GET /nope HTTP/1.1\r\nhost: g\r\n\r\n"


@pytest.fixture
def no_time(monkeypatch, one_piece_a_turn):
    """As on a machine on which any read takes all the time of a turn."""
    monkeypatch.setattr(turns, "MAX_S", 1e-9)


@pytest.mark.counts_calls
async def test_short_reads_of_many_clients_take_turns(no_time, parsed, gateway):
    """4 KB of requests each, all at once: after one read the others wait, and all are answered in the end."""
    ahead = AHEAD * (turns.AT_ONCE_BYTES // len(AHEAD))
    clients = [await gateway.connect() for _ in range(20)]
    for client in clients:
        client.send(ahead)
    for client in clients:
        for _ in range(ahead.count(AHEAD)):
            assert (await client.response()).status == 404
    assert max(parsed.values()) <= turns.AT_ONCE_BYTES + turns.FIRST_BYTES
    assert parsed.total() == len(clients) * len(ahead)


@pytest.mark.counts_calls
async def test_requests_behind_a_body_take_turns(no_time, parsed, gateway):
    """What is left of a body of known length is taken at once, and the requests behind it in pieces."""
    body = b'{"model":"none","prompt":"%b"}' % (b"y" * 70_000)
    client = await gateway.connect()
    client.send(CHAT + b"content-length: %d\r\n\r\n" % len(body) + body[:-1])
    await asyncio.sleep(0.05)
    parsed.clear()
    client.send(body[-1:] + AHEAD * 1000)
    for _ in range(1001):
        assert (await client.response()).status == 404
    assert max(parsed.values()) < 1000


@pytest.mark.counts_calls
async def test_short_reads_of_many_answers_take_turns(no_time, parsed, gateway, endpoint):
    """Chunks of one byte by a few KB at a time: after one read the others wait, and all arrive."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"1\r\nx\r\n" * 600
    clients = [await gateway.connect() for _ in range(12)]
    for client in clients:
        client.post()
    calls = [await endpoint.call() for _ in clients]
    for call in calls:
        call.write(head + b"1\r\nx\r\n")
    for client in clients:
        await client.head()
        await client.reader.readexactly(6)
    parsed.clear()
    for call in calls:
        call.write(chunks)
    for client in clients:
        assert await client.reader.readexactly(len(chunks)) == chunks
    assert max(parsed.values()) <= turns.AT_ONCE_BYTES + turns.FIRST_BYTES
