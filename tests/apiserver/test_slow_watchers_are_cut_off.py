"""The event logs bound what watchers can cost: a position outside the log is expired."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apiserver import errors
from headgate.apiserver.storage import Event, Key, Store, Stored
from headgate.apiserver.watch import Bookmark, EventLog, Hub


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(tmp_path / "objects.sqlite")
    yield made
    made.close()


def write(store: Store, name: str, resource: str = "things", size: int = 0) -> int:
    revision = store.put(Key(resource, "ns", name), {"metadata": {"name": name}, "data": "x" * size}).revision
    store.flush()
    return revision


async def read(hub: Hub, since: int) -> list[list[Event]]:
    """The batches up to the first bookmark, which comes when there is no event left."""
    batches = []
    async with aclosing(hub.follow("things", since, until=float("inf"), bookmark_s=0.01)) as follow:
        async for news in follow:
            if isinstance(news, Bookmark):
                break
            batches.append(news)
    return batches


async def test_a_watcher_that_falls_behind_the_log_is_expired(store: Store) -> None:
    """While a watcher does not read, more happens than the log holds: its next read is 410."""
    hub = Hub(store, max_events=8)
    until = asyncio.get_running_loop().time() + 5
    follow = hub.follow("things", store.revision, until=until, bookmark_s=None)
    write(store, "first")
    assert [event.new.key.name for event in await anext(follow)] == ["first"]  # type: ignore[union-attr]
    for number in range(30):
        write(store, f"n{number}")
    with pytest.raises(errors.StatusError, match="too old resource version") as expired:
        await anext(follow)
    assert (expired.value.code, expired.value.reason) == (410, "Expired")
    assert hub.statistics()["watchers"] == 0


async def test_bytes_are_bounded_too(store: Store) -> None:
    """A few big objects push old events out as many small ones do."""
    hub = Hub(store, max_events=1000, max_bytes=100_000)
    since = store.revision
    for number in range(20):
        write(store, f"n{number}", size=10_000)
    with pytest.raises(errors.StatusError):
        hub.check("things", since)


async def test_the_logs_of_all_kinds_share_a_bound(store: Store) -> None:
    """However many kinds there are, their events together stay below one limit; the largest log gives."""
    hub = Hub(store, max_bytes_in_all=100_000)
    for number in range(40):
        write(store, f"n{number}", f"kind{number % 4}", size=10_000)
        assert hub.statistics()["bytes"] <= 100_000
    write(store, "small", "quiet")
    since = store.revision
    write(store, "more", "quiet")
    hub.check("quiet", since - 1)


async def test_a_watcher_takes_a_bounded_part_at_a_time(store: Store) -> None:
    """What a slow watcher holds on to while the log moves on is a few hundred kilobytes, not the log."""
    hub = Hub(store)
    since = store.revision
    for number in range(20):
        write(store, f"n{number}", size=50_000)
    batches = await read(hub, since)
    assert sum(len(batch) for batch in batches) == 20
    assert max(sum(event.size for event in batch) for batch in batches) < Hub.BATCH_BYTES + 50_200


async def test_other_kinds_do_not_push_events_out(store: Store) -> None:
    """Each kind has a log of its own, so a busy one does not expire the watchers of a quiet one."""
    hub = Hub(store, max_events=8)
    since = store.revision
    write(store, "mine")
    for number in range(50):
        write(store, f"n{number}", "busy")
    (batch,) = await read(hub, since)
    assert [event.new.key.name for event in batch] == ["mine"]


async def test_a_bookmark_never_overtakes_an_event(store: Store) -> None:
    """Whatever is written while a watch runs, no event comes behind a bookmark of a later version."""
    hub = Hub(store)
    seen: list[tuple[str, int]] = []

    async def follow() -> None:
        until = asyncio.get_running_loop().time() + 30
        async for news in hub.follow("things", store.revision, until=until, bookmark_s=0.01):
            if isinstance(news, Bookmark):
                seen.append(("bookmark", news.revision))
            else:
                seen.extend(("event", event.revision) for event in news)
            if news == Bookmark(61):
                return

    async def produce() -> None:
        for number in range(60):
            write(store, f"n{number}", "things" if number % 3 else "other")
            await asyncio.sleep(0.003)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        tasks.create_task(produce())
    reached = 0
    for what, revision in seen:
        assert revision > reached or (what == "bookmark" and revision == reached)
        reached = revision
    assert len([what for what, _ in seen if what == "event"]) == 40


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 12), st.integers(100, 2000))
def test_a_log_gives_all_events_behind_a_position_or_says_that_it_cannot(
    sizes: list[int], max_events: int, max_bytes: int
) -> None:
    """For every position a log either gives exactly the later events or raises 410."""
    log = EventLog(0, max_events, max_bytes)
    events = []
    for revision, size in enumerate(sizes, 1):
        stored = _stored(revision, size)
        events.append(Event("ADDED", stored, None))
        log.append(events[-1])
    for position in range(len(sizes) + 1):
        later = events[position:]
        if position < log.compacted:
            with pytest.raises(errors.StatusError):
                log.after(position, 100)
        else:
            assert log.after(position, 100) == later
    assert len(sizes) - log.compacted <= max_events


def _stored(revision: int, size: int) -> Any:
    return Stored(Key("things", "", str(revision)), revision, b"x" * size)
