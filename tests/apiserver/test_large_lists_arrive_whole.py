"""Lists of megabytes: sent in parts, compressed or not, they arrive as they are stored."""

from __future__ import annotations

import asyncio

import httpx2
import pytest


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_a_large_list_is_whole(remote: httpx2.AsyncClient, config_maps: str, coding: str) -> None:
    """Every byte of every object is there, and other requests are answered while it is sent."""
    weights = {f"n{number}": str(number) * 300_000 for number in range(1, 8)}
    for name, weight in weights.items():
        await remote.post(config_maps, json={"metadata": {"name": name}, "data": {"weight": weight}})
    asked = remote.get(config_maps, headers={"accept-encoding": coding})
    listed, ready = await asyncio.gather(asked, remote.get("/readyz"))
    assert ready.text == "ok"
    assert listed.headers.get("content-encoding", "identity") == coding
    assert {item["metadata"]["name"]: item["data"]["weight"] for item in listed.json()["items"]} == weights
