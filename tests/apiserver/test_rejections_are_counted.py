"""Whoever watches the server sees from its metrics that something is rejected, and with which status."""

from __future__ import annotations

import httpx2

NAMESPACES = "/api/v1/namespaces"


async def counted(client: httpx2.AsyncClient) -> dict[str, float]:
    """The count of each status."""
    lines = [line for line in (await client.get("/metrics")).text.splitlines() if "errors_total{" in line]
    return {line.partition('code="')[2].partition('"')[0]: float(line.split()[-1]) for line in lines}


async def test_responses_with_an_error_are_counted_by_status(client: httpx2.AsyncClient) -> None:
    """Whatever rejects them: the query, the token, the size, the schema, the path."""
    assert await counted(client) == {}
    await client.get(NAMESPACES)
    await client.get(NAMESPACES + "?" + "a=b&" * 101)
    await client.get(NAMESPACES, headers={"authorization": "Bearer wrong"})
    await client.post(NAMESPACES, content=b" " * 4_000_000, headers={"content-type": "application/json"})
    await client.post(NAMESPACES, json={"metadata": {"name": "Not A Name"}})
    for path in ("/nothing", "/api/v1/nothing", NAMESPACES + "/none"):
        await client.get(path)
    assert await counted(client) == {"400": 1, "401": 1, "404": 3, "413": 1, "422": 1}
