"""Whatever is at the engine's address, the sidecar responds."""

import asyncio
import contextlib

import pytest
from prometheus_client.parser import text_string_to_metric_families

PAGES = {
    "nothing": b"",
    "no HTTP": b"\x00\x01\x02 hello",
    "an error": b"HTTP/1.1 500 Oops\r\ncontent-length: 3\r\n\r\nbad",
    "a redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
    "a huge body": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x 1\n" * 2_000_000,
    "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx 1\n",
    "no metrics": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
    "forged metrics": b"HTTP/1.1 200 OK\r\ncontent-length: 29\r\n\r\nheadgate_runtime_engine_up 5\n",
}


@pytest.fixture
async def hostile():
    """Start a server that sends these bytes to everyone."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(sent):
            async def respond(reader, writer):
                with contextlib.suppress(OSError):
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(sent)
                    await writer.drain()
                writer.close()

            server = await asyncio.start_server(respond, "127.0.0.1", 0)
            await stack.enter_async_context(server)
            return server.sockets[0].getsockname()[1]

        yield start


@pytest.mark.parametrize("name", PAGES)
async def test_the_metrics_page_stays_valid(hostile, sidecar, name):
    """It says whether the engine's page was read, and the engine cannot say so itself."""
    beside = await sidecar(await hostile(PAGES[name]))
    page = await beside.client.get("/metrics")
    assert page.status_code == 200
    found = {family.name: family for family in text_string_to_metric_families(page.text)}
    is_read = name in ("no metrics", "forged metrics")
    assert [s.value for s in found["headgate_runtime_engine_up"].samples] == [float(is_read)]
    assert len(page.content) < 5000


async def test_a_hook_ends_without_a_readable_page(hostile, sidecar):
    """Nothing is known of an engine that does not show its requests for ten seconds."""
    beside = await sidecar(await hostile(PAGES["no metrics"]))
    assert (await beside.client.get("/drain")).json() == {"engine": "unknown"}


@pytest.mark.parametrize(
    "listed", [b"[" * 1000, b'{"data": [{"id": 5}]}', b'{"data": ' + b"{}," * 500_000, b"\xff", b"{}"]
)
async def test_lists_of_models_are_not_trusted(hostile, sidecar, tmp_path, listed):
    """The adapter is still being loaded, and the sidecar serves."""
    (tmp_path / "token").write_text("t")
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(listed)
    beside = await sidecar(await hostile(head + listed), "--token-file", str(tmp_path / "token"))
    put = {"adapters": [{"name": "a", "source": "/a"}]}
    assert (
        await beside.client.put("/v1/adapters", json=put, headers={"authorization": "Bearer t"})
    ).is_success
    await asyncio.sleep(1.5)
    shown = (await beside.client.get("/v1/adapters")).json()["adapters"]
    assert [each["state"] for each in shown] == ["Loading"]
