"""Clients of pages that are many, slow or endless are disconnected, and no probe waits for them."""

import asyncio
import contextlib
import os
import resource
from collections import Counter

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate import serving

PATIENCE_S = 30.0
MAX = 8
MB = 1 << 20
BEGUN = (b"", b"GET /heal", b"POST /healthz HTTP/1.1\r\ncontent-length: 9\r\n\r\nx")
"""Requests that never arrive whole."""


class Page:
    """A page that answers at once, and one that answers when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.rejected: Counter[str] = Counter()
        self.port = 0

    async def health(self, _: Request) -> Response:
        return PlainTextResponse("ok")

    async def slow(self, _: Request) -> Response:
        await self.may_answer.wait()
        return PlainTextResponse("at last")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def get(self, path: str = "/healthz") -> bytes:
        """The whole response, on a connection of its own."""
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nhost: page\r\nconnection: close\r\n\r\n".encode())
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read()
        finally:
            writer.transport.abort()

    async def send_endlessly(self, begin: bytes, most: int) -> int:
        """Sends more and more until it is disconnected; returns how many bytes, at most `most`."""
        reader, writer = await self.connect()
        writer.write(begin)
        sent = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                while sent < most and not (reader.at_eof() or writer.transport.is_closing()):
                    writer.write(b"v" * 65536)
                    sent += 65536
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.transport.abort()
        return sent


@pytest.fixture
def limits():
    return serving.Limits(connections=MAX, request_s=600.0)


@pytest.fixture
async def page(limits):
    """A page on a port of its own, within these limits."""
    page = Page()
    app = Starlette(
        routes=[Route("/healthz", page.health, methods=["GET", "POST"]), Route("/slow", page.slow)]
    )
    listener = serving.listening_socket("127.0.0.1", 0)
    page.port = listener.getsockname()[1]

    def rejected(reason: serving.Reason) -> None:
        page.rejected[reason] += 1

    task = asyncio.create_task(serving.serve_page(app, listener, limits=limits, rejected=rejected))
    async with asyncio.timeout(PATIENCE_S):
        while b" 200 " not in await _first_try(page):
            await asyncio.sleep(0.01)
    page.rejected.clear()
    yield page
    page.may_answer.set()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _first_try(page: Page) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await page.get()
    return b""


@pytest.mark.parametrize(
    "begun", [b"", b"GET /heal", b"POST /healthz HTTP/1.1\r\ncontent-length: 9\r\n\r\nx"]
)
async def test_a_probe_is_answered_however_many_wait(page, begun):
    """Idle connections and requests that never arrive make room for whoever comes, the oldest first."""
    waiting, open_before = [], len(os.listdir("/proc/self/fd"))
    for _ in range(10 * MAX):
        reader, writer = await page.connect()
        writer.write(begun)
        waiting.append((reader, writer))
    assert b" 200 OK" in await page.get()
    opened = len(os.listdir("/proc/self/fd")) - open_before
    assert opened < len(waiting) + 2 * MAX + 10, "the server's ends are closed"
    assert page.rejected["too_many_connections"] >= 9 * MAX
    for _, writer in waiting:
        writer.transport.abort()


async def test_requests_that_are_being_answered_are_not_cut_off(page):
    """Where all are, a further connection is rejected with 503 and Retry-After."""
    answering = [asyncio.create_task(page.get("/slow")) for _ in range(MAX)]
    async with asyncio.timeout(PATIENCE_S):
        while b" 503 " not in (answer := await page.get()):
            await asyncio.sleep(0.01)
    assert b"retry-after: 1\r\n" in answer
    page.may_answer.set()
    assert all(each.endswith(b"at last") for each in await asyncio.gather(*answering))


@pytest.mark.parametrize("limits", [serving.Limits(request_s=0.3)])
@pytest.mark.parametrize(
    "begun", [b"", b"GET /heal", b"POST /healthz HTTP/1.1\r\ncontent-length: 9\r\n\r\nx"]
)
async def test_whoever_sends_no_request_is_disconnected(page, begun):
    """One that sends nothing, or never ends its request, gets 408."""
    reader, writer = await page.connect()
    writer.write(begun)
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    assert b" 408 " in answer
    assert page.rejected["request_timeout"] == 1
    writer.transport.abort()


ENDLESS = {
    "request line": b"GET /",
    "header": b"GET /healthz HTTP/1.1\r\nx: ",
    "trailer": b"POST /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ",
    "chunk extension": b"POST /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;",
}


@pytest.mark.parametrize("begin", ENDLESS.values(), ids=ENDLESS)
async def test_a_head_without_end_is_rejected_early(page, begin):
    """Its sender is disconnected long before it fills the memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent = await page.send_endlessly(begin, 64 * MB)
    assert sent < 16 * MB, "of which most waits in the buffers of the kernel"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    assert page.rejected["head_too_large"] == 1


async def test_requests_sent_ahead_are_few(page):
    """A client that sends thousands of requests at once is rejected."""
    reader, writer = await page.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 1000)
    async with asyncio.timeout(PATIENCE_S):
        answers = await reader.read()
    assert answers.count(b"HTTP/1.1 ") <= serving.MAX_PIPELINED + 2
    assert page.rejected["too_many_pipelined"] == 1
    writer.transport.abort()
