"""MindIE serves its metrics page on port 1027, not where it takes requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

HOST = "127.27.10.1"
"""An address of its own on loopback, as Pods of a laptop have."""
METRICS_PORT = 1027


class MindIE:
    """Its two servers, and how many requests it has."""

    def __init__(self) -> None:
        self.running = 0
        self._stack = contextlib.AsyncExitStack()
        self.url = ""

    async def start(self, *, with_page: bool) -> None:
        requests = await asyncio.start_server(self._respond(lambda: '{"data": []}'), HOST, 0)
        await self._stack.enter_async_context(requests)
        self.url = f"http://{HOST}:{requests.sockets[0].getsockname()[1]}"
        if with_page:
            page = await asyncio.start_server(self._respond(self._page), HOST, METRICS_PORT)
            await self._stack.enter_async_context(page)

    async def stop(self) -> None:
        await self._stack.aclose()

    def _page(self) -> str:
        return (
            "# TYPE num_requests_running gauge\n"
            f'num_requests_running{{model_name="tiny"}} {self.running}\n'
            'num_requests_waiting{model_name="tiny"} 0\n'
            "# TYPE generation_tokens_total counter\n"
            'generation_tokens_total{model_name="tiny"} 7\n'
        )

    def _respond(self, text: Callable[[], str]) -> Callable[..., Awaitable[None]]:
        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await reader.readuntil(b"\r\n\r\n")
                body = text().encode()
                head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
            writer.close()

        return respond


@pytest.fixture
async def mindie() -> AsyncIterator[MindIE]:
    engine = MindIE()
    yield engine
    await engine.stop()


async def beside(start, mindie, tmp_path):
    words = ("--engine", "MindIE", "--engine-base-url", mindie.url, "--state-dir", str(tmp_path))
    return await start("runtime", *words)


async def test_a_hook_waits_for_requests_of_mindie(start, mindie, tmp_path, eventually):
    """And the page of the sidecar has the unified names."""
    await mindie.start(with_page=True)
    mindie.running = 2
    sidecar = await beside(start, mindie, tmp_path)
    assert (
        'kthena:generation_tokens_total{model_name="tiny"} 7' in (await sidecar.client.get("/metrics")).text
    )
    hook = asyncio.ensure_future(sidecar.client.get("/drain"))

    async def is_waiting():
        return "headgate_runtime_drain_waiting 1" in (await sidecar.client.get("/metrics")).text

    await eventually(is_waiting)
    await asyncio.sleep(2)
    assert not hook.done()
    mindie.running = 0
    assert (await hook).json() == {"engine": "idle"}


async def test_an_engine_without_the_page_is_not_taken_for_gone(start, mindie, tmp_path):
    """As a coordinator of MindIE, which may have requests: the hook says that it cannot know."""
    await mindie.start(with_page=False)
    sidecar = await beside(start, mindie, tmp_path)
    assert (await sidecar.client.get("/drain")).json() == {"engine": "unknown"}
    await mindie.stop()
    assert (await sidecar.client.get("/drain")).json() == {"engine": "gone"}
