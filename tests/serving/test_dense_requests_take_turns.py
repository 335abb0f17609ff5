"""Requests that cost more to parse than their bytes tell are bounded, and leave time to other clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate import loop_turns, serving
from headgate.serving import BoundedProtocol
from headgate.serving import protocol as protocols

POST = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
LIMITS = serving.Limits(request_s=600.0)


class Page:
    """A page that tells how long a body is, and what its server has done."""

    def __init__(self) -> None:
        self.port = 0
        self.rejected: Counter[str] = Counter()

    async def length(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def ask(self, request: bytes) -> bytes:
        """Everything that the server answers until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        answer = b""
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):  # it does not wait for the rest of what was sent
                while part := await reader.read(65536):
                    answer += part
        writer.transport.abort()
        return answer


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    page = Page()
    app = Starlette(routes=[Route("/", page.length, methods=["GET", "POST"])])
    listener = serving.listening_socket("127.0.0.1", 0)
    listener.listen()
    page.port = listener.getsockname()[1]

    def rejected(reason: serving.Reason) -> None:
        page.rejected[reason] += 1

    task = asyncio.create_task(serving.serve_page(app, listener, limits=LIMITS, rejected=rejected))
    yield page
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the parser called back, by what it had found."""
    calls: Counter[str] = Counter()
    for name in ("on_header", "on_chunk_header"):
        present = getattr(BoundedProtocol, name, lambda protocol, *given: None)

        def counted(protocol: BoundedProtocol, *given: bytes, name: str = name, present=present) -> None:
            calls[name] += 1
            present(protocol, *given)

        monkeypatch.setattr(BoundedProtocol, name, counted, raising=False)
    return calls


async def test_headers_beyond_their_number_are_not_parsed(page: Page, calls: Counter[str]) -> None:
    """Thousands of tiny headers are 431, and the parser ends at the first that is too many."""
    answer = await page.ask(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * 3000 + b"\r\n")
    assert b" 431 " in answer or not answer
    assert page.rejected == {"head_too_large": 1}
    assert calls["on_header"] == LIMITS.headers + 1


async def test_as_many_headers_as_may_be_are_taken(page: Page) -> None:
    """A request with a hundred headers is served."""
    head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    assert b" 200 OK" in await page.ask(head + b"a:b\r\n" * (LIMITS.headers - 2) + b"\r\n")


async def test_tiny_chunks_beyond_their_number_are_not_parsed(page: Page, calls: Counter[str]) -> None:
    """A body of twenty thousand chunks of a byte is 400, and the parser ends early."""
    answer = await page.ask(POST + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
    assert b" 400 " in answer or not answer
    assert page.rejected == {"too_many_chunks": 1}
    assert calls["on_chunk_header"] < 1.1 * protocols.MAX_CHUNKS


async def test_a_long_body_may_have_more_chunks(page: Page) -> None:
    """The bound grows with the body: three thousand chunks of 64 bytes are taken."""
    answer = await page.ask(POST + (b"40\r\n" + b"x" * 64 + b"\r\n") * 3000 + b"0\r\n\r\n")
    assert answer.endswith(b"%d" % (3000 * 64))
    assert not page.rejected


async def test_escapes_of_a_target_are_few(page: Page) -> None:
    """Each costs as much as many other characters: 400 for thousands of them."""
    few = b"GET /?" + b"%61" * 1000 + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    many = few.replace(b"%61", b"%61" * 5)
    assert b" 200 OK" in await page.ask(few)
    assert b" 400 " in await page.ask(many)
    assert page.rejected == {"too_many_escapes": 1}


@pytest.mark.parametrize("chunks", [60, 900], ids=["short", "long"])
async def test_dense_bodies_take_turns(page: Page, monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """Where a piece takes as long as a turn may, one connection goes on in each turn; all bodies arrive."""
    for name in ("TURN_S", "QUICK_S", "MAX_S"):
        monkeypatch.setattr(loop_turns, name, 1e-9)
    loop, turn = asyncio.get_running_loop(), 0
    found: Counter[int] = Counter()
    read_on = BoundedProtocol._read_on

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    def counted(protocol: BoundedProtocol) -> bool:
        found[turn] += 1
        return read_on(protocol)

    monkeypatch.setattr(BoundedProtocol, "_read_on", counted)
    next_turn()
    request = POST + b"3\r\nyyy\r\n" * chunks + b"0\r\n\r\n"
    answers = await asyncio.gather(*(page.ask(request) for _ in range(24)))
    assert all(answer.endswith(b"\r\n%d" % (3 * chunks)) for answer in answers)
    assert found.total() >= 12
    assert max(found.values()) == 1
