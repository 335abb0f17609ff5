"""What is fetched from an engine's server: whole answers in every framing of HTTP/1, within bounds."""

import asyncio

import pytest

from headgate.engine_client import (
    LARGE_BYTES,
    MAX_FRAMING_BYTES,
    MAX_HEAD_BYTES,
    MAX_PIECES,
    Client,
    FetchError,
    LargeResponses,
)

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def fetch(start_server):
    """Gives what is fetched from a server that writes these bytes, and then closes if it is to."""
    clients = []

    async def fetched(answer, *, closes=False, pieces=1, max_bytes=1000):
        async def write(call):
            size = -(-len(answer) // pieces) or 1
            for start in range(0, len(answer), size):
                call.write(answer[start : start + size])
                await asyncio.sleep(0)
            if closes:
                call.close()

        tasks = set()

        def behave(call):
            task = asyncio.ensure_future(write(call))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        port = await start_server(behave)
        client = Client("127.0.0.1", port, None, "")
        clients.append(client)
        return await client.get("/metrics", "text/plain", max_bytes, 5.0)

    yield fetched
    for client in clients:
        client.close()


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize(
    ("answer", "closes"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", True),
        (b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello", True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
    ],
)
async def test_whole_answers_come_in_every_framing(fetch, answer, closes, pieces):
    """However they are cut."""
    assert await fetch(answer, closes=closes, pieces=pieces) == (200, b"hello")


@pytest.mark.parametrize(
    ("answer", "closes", "why"),
    [
        (b"", True, "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", True, "closed the connection amid its answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", True, "closed the connection amid its answer"),
        (b"hello\r\n\r\n", False, "sent no valid HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n" + b"x" * 1001, False, "body that is too long"),
        (CHUNKED + b"1\r\nx\r\n" * (MAX_PIECES + 1), False, "in too many pieces"),
        (b"HTTP/1.1 200 OK\r\na: " + b"x" * MAX_HEAD_BYTES, False, "head that is too long"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000, False, "head that is too long"),
        (CHUNKED + b"5;" + b"e" * MAX_FRAMING_BYTES, False, "chunks or trailers that are too long"),
        (CHUNKED + b"0\r\nx: " + b"y" * MAX_FRAMING_BYTES, False, "chunks or trailers that are too long"),
        (CHUNKED + b"0\r\n" + b"x: y\r\n" * MAX_FRAMING_BYTES, False, "chunks or trailers that are too long"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", False, "no valid HTTP"),
    ],
)
async def test_what_is_no_whole_answer_is_told(fetch, answer, closes, why):
    """In words that follow the name of the server; nothing of unbounded size is kept."""
    with pytest.raises(FetchError, match=why):
        await fetch(answer, closes=closes, max_bytes=1000 if "long" in why else 1 << 20)


def answer_of(size):
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size


@pytest.mark.parametrize("piece", [1 << 20, 10_000])
async def test_large_answers_wait_until_others_were_read(start_server, eventually, piece):
    """Of many engines that send 4 MB each, few are held at a time; short answers wait for nobody."""
    large, size = LargeResponses(1), 2 * LARGE_BYTES
    sent = []

    async def send(call):
        body = answer_of(100 if call.target == "/short" else size)
        for start in range(0, len(body), piece):
            call.write(body[start : start + piece])
            await asyncio.sleep(0)
        sent.append(call.target)

    tasks = []
    port = await start_server(lambda call: tasks.append(asyncio.ensure_future(send(call))))
    clients = [Client("127.0.0.1", port, None, "", large=large) for _ in range(3)]

    def get(client, path):
        return asyncio.ensure_future(client.get(path, "text/plain", 1 << 22, 30.0))

    assert len((await get(clients[0], "/first")).body) == size
    second, third = get(clients[1], "/second"), get(clients[2], "/third")
    await eventually(lambda: large.statistics()["waiting"] == 2)
    short = Client("127.0.0.1", port, None, "", large=large)
    assert len((await get(short, "/short")).body) == 100
    assert not second.done()
    assert not third.done()
    clients[0].release()
    await asyncio.wait((second, third), return_when=asyncio.FIRST_COMPLETED)
    first, last = (1, 2) if second.done() else (2, 1)
    clients[first].close()
    assert len((await (third if first == 1 else second)).body) == size
    clients[last].release()
    assert large.statistics() == {"free": 1, "waiting": 0}
    for client in (*clients, short):
        client.close()


async def test_who_waits_with_a_large_answer_may_give_up(start_server, eventually):
    """It is passed over, and what it never had is not given back."""
    large = LargeResponses(1)
    port = await start_server(lambda call: call.write(answer_of(2 * LARGE_BYTES)))
    first, second = (Client("127.0.0.1", port, None, "", large=large) for _ in range(2))
    await first.get("/", "text/plain", 1 << 22, 30.0)
    waiting = asyncio.ensure_future(second.get("/", "text/plain", 1 << 22, 30.0))
    await eventually(lambda: large.statistics()["waiting"] == 1)
    waiting.cancel()
    await asyncio.wait((waiting,))
    first.close()
    assert large.statistics() == {"free": 1, "waiting": 0}


async def test_an_answer_that_was_read_is_held_no_more(start_server):
    """Neither by its connection, which stays open: those of a thousand engines may have 4 MB each."""
    port = await start_server(lambda call: call.write(answer_of(2 * LARGE_BYTES)))
    client = Client("127.0.0.1", port, None, "")
    await client.get("/", "text/plain", 1 << 22, 30.0)
    connection = client._connection
    assert (connection._body, connection._response) == ([], None)
    client.close()
