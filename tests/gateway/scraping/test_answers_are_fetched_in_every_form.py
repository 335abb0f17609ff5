"""What is fetched from an engine's server: whole answers in every framing of HTTP/1, within bounds."""

import asyncio

import pytest

from headgate.gateway.scraping.fetch import (
    MAX_FRAMING_BYTES,
    MAX_HEAD_BYTES,
    MAX_PIECES,
    Client,
    FetchError,
)

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def fetch(start_endpoint):
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

        endpoint = await start_endpoint(behave=behave)
        client = Client("127.0.0.1", endpoint.port, None, "")
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
