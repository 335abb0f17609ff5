"""Group commit: writes that come together share a transaction and a flush, of which nobody hears before."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import commits, space
from headgate.apiserver.parts import Parts
from headgate.apiserver.storage import Event, Key, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "objects.sqlite")
    yield made
    made.close()


@pytest.fixture
def told(store: Store) -> list[Event]:
    heard: list[Event] = []
    store.listen(heard.append)
    return heard


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk whose flushes last until the event is set."""
    ready = threading.Event()
    flush = commits._flush_file

    def slow(file: int) -> None:
        assert ready.wait(60)
        flush(file)

    monkeypatch.setattr(commits, "_flush_file", slow)
    return ready


def put(store: Store, name: str, size: int = 0) -> int:
    return store.put(Key("things", "", name), {"metadata": {"name": name}, "data": "x" * size}).revision


async def test_writes_of_one_turn_are_one_commit(store: Store, told: list[Event]) -> None:
    """Twenty writes that nothing separates cost one transaction, and are told in their order."""
    revisions = [put(store, f"n{number}") for number in range(20)]
    await store.settled()
    assert store.statistics()["commits"] == 1
    assert [event.revision for event in told] == revisions


async def test_writes_during_a_flush_share_the_next(
    store: Store, told: list[Event], disk: threading.Event
) -> None:
    """While the disk is busy, writes gather; a slow disk makes batches larger, not the server slower."""
    for number in range(20):
        put(store, f"n{number}")
        await asyncio.sleep(0.002)
    assert (len(told), len(store)) == (0, 20)
    disk.set()
    await store.settled()
    assert (len(told), store.statistics()["commits"]) == (20, 2)


async def test_no_answer_shows_what_is_not_on_disk(
    parts: Parts, client: httpx2.AsyncClient, config_maps: str, disk: threading.Event
) -> None:
    """Until the flush neither the writer nor a reader is answered, not even that the name is taken."""
    made = {"metadata": {"name": "a"}}
    asked = [
        asyncio.ensure_future(client.post(config_maps, json=made)),
        asyncio.ensure_future(client.get(f"{config_maps}/a")),
        asyncio.ensure_future(client.get(config_maps)),
        asyncio.ensure_future(client.post(config_maps, json=made)),
    ]
    await asyncio.sleep(0.05)
    assert not any(answer.done() for answer in asked)
    disk.set()
    assert [(await answer).status_code for answer in asked] == [201, 200, 200, 409]


async def test_a_full_disk_takes_nothing_of_a_batch(
    store: Store, told: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody whose write was in the transaction hears that it failed; then the server goes on."""
    monkeypatch.setattr(space, "TRY_AGAIN_S", 0)
    before = put(store, "first")
    await store.settled()
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages + 2}")
    put(store, "small")
    waiting = asyncio.ensure_future(store.settled())
    await asyncio.sleep(0)
    put(store, "neighbour")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        put(store, "large", size=100_000)
    assert store.get(Key("things", "", "neighbour")) is None
    await waiting
    store._db.execute("PRAGMA max_page_count=100000")
    after = put(store, "later")
    await store.settled()
    assert [event.new.key.name for event in told] == ["first", "small", "later"]
    assert (after, store.revision, len(store)) == (before + 2, before + 2, 3)


async def test_after_a_failed_flush_nothing_goes_on(
    parts: Parts, client: httpx2.AsyncClient, config_maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk after a failed flush nobody knows: all is 503 until a restart has looked."""

    def broken(file: int) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(commits, "_flush_file", broken)
    answers = [await client.post(config_maps, json={"metadata": {"name": name}}) for name in "ab"]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert "Input/output error" in answers[1].json()["message"]
    assert (await client.get(config_maps)).status_code == 503
