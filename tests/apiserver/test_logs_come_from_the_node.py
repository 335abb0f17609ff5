"""pods/log is proxied to the address that the Pod's node publishes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

PODS = "/api/v1/namespaces/default/pods"


class FakeNode:
    """Answers every request with a prepared response, and remembers the request line."""

    def __init__(self) -> None:
        self.response = b""
        self.request_line = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.request_line = head.partition(b"\r\n")[0].decode()
        writer.write(self.response)
        await writer.drain()
        writer.close()


@pytest.fixture
async def node(client: httpx2.AsyncClient) -> AsyncIterator[FakeNode]:
    """A node `n` with a Pod `p` of two containers on it."""
    made = FakeNode()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        annotations = {"headgate.dev/log-endpoint": f"http://127.0.0.1:{port}/base"}
        await client.post("/api/v1/nodes", json={"metadata": {"name": "n", "annotations": annotations}})
        containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
        spec = {"nodeName": "n", "containers": containers}
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
        yield made


async def test_the_log_is_streamed_through(client: httpx2.AsyncClient, node: FakeNode) -> None:
    """The parameters reach the node, its chunks reach the client as text."""
    node.response = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"
    )
    params = {"container": "b", "tailLines": 2, "follow": "true", "unknown": "x"}
    answer = await client.get(f"{PODS}/p/log", params=params)
    assert (answer.status_code, answer.text) == (200, "one\ntwo\n")
    assert answer.headers["content-type"].startswith("text/plain")
    assert node.request_line == "GET /base/logs/default/p/b?follow=true&tailLines=2 HTTP/1.1"


@pytest.mark.parametrize(
    ("response", "code", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\nno logs", 404, "no logs"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", 503, "the node answered 500"),
        (b"", 503, "closed the connection"),
        (b"garbage\r\n\r\n", 503, "cannot be read"),
    ],
)
async def test_a_node_that_has_no_log_is_told(
    client: httpx2.AsyncClient, node: FakeNode, response: bytes, code: int, text: str
) -> None:
    """Refusals and breakdowns of the node become a Status."""
    node.response = response
    answer = await client.get(f"{PODS}/p/log", params={"container": "a"})
    assert answer.status_code == code
    assert text in answer.json()["message"]


async def test_a_container_must_be_named_when_there_are_two(
    client: httpx2.AsyncClient, node: FakeNode
) -> None:
    """Without a name, or with a wrong one, the answer says which there are."""
    unnamed = await client.get(f"{PODS}/p/log")
    assert (unnamed.status_code, "choose one of: [a b]" in unnamed.json()["message"]) == (400, True)
    wrong = await client.get(f"{PODS}/p/log", params={"container": "z"})
    assert wrong.status_code == 400


async def test_only_loopback_addresses_are_asked(client: httpx2.AsyncClient, node: FakeNode) -> None:
    """A Node cannot make the server call out to other machines."""
    body = {"metadata": {"annotations": {"headgate.dev/log-endpoint": "http://192.0.2.1/"}}}
    headers = {"content-type": "application/merge-patch+json"}
    await client.patch("/api/v1/nodes/n", json=body, headers=headers)
    answer = await client.get(f"{PODS}/p/log", params={"container": "a"})
    assert (answer.status_code, "loopback" in answer.json()["message"]) == (503, True)


async def test_a_pod_without_a_node_has_no_log(client: httpx2.AsyncClient) -> None:
    """The answer says that the Pod runs nowhere yet."""
    spec = {"containers": [{"name": "a", "image": "i"}]}
    await client.post(PODS, json={"metadata": {"name": "q"}, "spec": spec})
    answer = await client.get(f"{PODS}/q/log")
    assert (answer.status_code, "does not have a host assigned" in answer.json()["message"]) == (400, True)
