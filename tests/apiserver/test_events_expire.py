"""Events are news: they go an hour after they last happened, and nothing else does."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config, Running, expiry
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts
from headgate.apiserver.snapshots import PART_BYTES
from headgate.apiserver.targets import Target, WriteOptions

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str, **fields: Any) -> Any:
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p"}} | fields


async def names(client: httpx2.AsyncClient, url: str = EVENTS) -> set[str]:
    return {item["metadata"]["name"] for item in (await client.get(url)).json()["items"]}


async def test_an_event_goes_an_hour_after_it_last_happened(
    client: httpx2.AsyncClient, parts: Parts, config_maps: str
) -> None:
    """An old event that was counted up lately stays, and so does every other kind."""
    now = datetime.datetime.now(datetime.UTC)
    later = now + datetime.timedelta(hours=2)
    lately = (later - datetime.timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await client.post(EVENTS, json=event("once"))
    await client.post(EVENTS, json=event("again", lastTimestamp=lately))
    await client.post(config_maps, json={"metadata": {"name": "c"}})
    await expiry.sweep(parts.objects, now + datetime.timedelta(minutes=59))
    assert await names(client) == {"once", "again"}
    await expiry.sweep(parts.objects, later)
    assert await names(client) == {"again"}
    assert await names(client, config_maps) == {"c"}


async def test_events_leave_room_for_everything_else(tmp_path: Path) -> None:
    """A flood of Events is refused at a tenth of all objects; the oldest go with the next sweep."""
    parts = Parts(Config(tmp_path, definitions=[], max_objects=200))
    headers = {"authorization": "Bearer t"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    now = datetime.datetime.now(datetime.UTC)
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        answers = []
        for number in range(25):
            last = (now + datetime.timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
            answers.append(await client.post(EVENTS, json=event(f"e{number}", lastTimestamp=last)))
        assert [answer.status_code for answer in answers] == [201] * 20 + [403] * 5
        assert "exceeded the limit of 20 Events" in answers[-1].json()["message"]
        made = await client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "c"}})
        assert made.status_code == 201
        await expiry.sweep(parts.objects, now)
        assert await names(client) == {f"e{number}" for number in range(2, 20)}
    parts.store.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EVENT_LIFE_S", -5.0)
    monkeypatch.setattr(expiry, "SWEEP_S", 0.01)


@pytest.mark.usefixtures("at_once")
async def test_a_running_server_expires_events(server: Running, remote: httpx2.AsyncClient) -> None:
    """Nobody has to ask for it."""
    assert (await remote.post(EVENTS, json=event("old"))).status_code == 201
    async with asyncio.timeout(30):
        while await names(remote):
            await asyncio.sleep(0.01)


async def test_others_are_served_while_events_are_looked_through(parts: Parts) -> None:
    """Events of two megabytes are read in parts, and each of them is seen."""
    served = parts.registry.find("", "v1", "events")
    assert served
    for number in range(200):
        long = event(f"e{number}", message="x" * 10_000)
        parts.objects.create(Target(served, "default", ""), long, WriteOptions(), [])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    found = await expiry._known(parts.store)
    other.cancel()
    assert len({key for _, key, _ in found}) == 200
    assert turns >= 200 * 10_000 // PART_BYTES
