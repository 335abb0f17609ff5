"""Watches over the wire: order, initial state, selectors, bookmarks, timeouts, Tables, and how they end."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config, Running, running

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


class Events:
    """The events of one watch, as they come."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status_code = response.status_code
        self._lines = response.aiter_lines()

    async def next(self) -> Any:
        async with asyncio.timeout(30):
            return json.loads(await anext(self._lines))

    async def take(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def rest(self) -> list[Any]:
        async with asyncio.timeout(30):
            return [json.loads(line) async for line in self._lines]


@pytest.fixture
def watch(remote: httpx2.AsyncClient, widgets: str) -> Any:
    @asynccontextmanager
    async def begin(headers: Any = None, **params: Any) -> AsyncIterator[Events]:
        params = {"watch": "true"} | params
        async with remote.stream("GET", widgets, params=params, headers=headers) as response:
            yield Events(response)

    return begin


async def revision(remote: httpx2.AsyncClient, widgets: str) -> str:
    return str((await remote.get(widgets)).json()["metadata"]["resourceVersion"])


async def patch(remote: httpx2.AsyncClient, url: str, body: Any) -> Any:
    headers = {"content-type": "application/merge-patch+json"}
    return (await remote.patch(url, json=body, headers=headers)).json()


async def test_a_watch_without_a_version_begins_with_what_there_is(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """Existing objects come as ADDED, then each change in its order."""
    await remote.post(widgets, json=widget("a"))
    async with watch() as events:
        assert await events.take(1) == [("ADDED", "a")]
        await remote.post(widgets, json=widget("b"))
        await patch(remote, f"{widgets}/a", {"spec": {"size": 2}})
        await remote.delete(f"{widgets}/b")
        assert await events.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_from_a_version_misses_nothing(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """What happened between the list and the watch is told, and nothing twice."""
    await remote.post(widgets, json=widget("old"))
    since = await revision(remote, widgets)
    await remote.post(widgets, json=widget("new"))
    await remote.delete(f"{widgets}/old")
    async with watch(resourceVersion=since) as events:
        assert await events.take(2) == [("ADDED", "new"), ("DELETED", "old")]


async def test_a_selector_turns_transitions_into_added_and_deleted(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """What begins to match is ADDED; what ceases to is DELETED in the state that the watcher knew."""
    since = await revision(remote, widgets)
    async with watch(resourceVersion=since, labelSelector="tier=x") as events:
        await remote.post(widgets, json=widget("a", labels={"tier": "y"}))
        await patch(remote, f"{widgets}/a", {"metadata": {"labels": {"tier": "x"}}})
        await patch(remote, f"{widgets}/a", {"spec": {"size": 4}})
        left = await patch(remote, f"{widgets}/a", {"metadata": {"labels": {"tier": "z"}}})
        await remote.delete(f"{widgets}/a")
        assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        last = await events.next()
    assert last["type"] == "DELETED"
    assert last["object"]["metadata"]["labels"] == {"tier": "x"}
    assert last["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_watch_of_one_object_sees_no_other(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """fieldSelector=metadata.name=... narrows a watch to one name."""
    async with watch(fieldSelector="metadata.name=b") as events:
        for name in ("a", "b", "c"):
            await remote.post(widgets, json=widget(name))
        assert await events.take(1) == [("ADDED", "b")]


async def test_bookmarks_move_a_quiet_watch_on(
    remote: httpx2.AsyncClient, watch: Any, config_maps: str, widgets: str
) -> None:
    """A watcher that hears of nothing still learns the current version, so that it can resume from there."""
    since = await revision(remote, widgets)
    made = await remote.post(config_maps, json={"metadata": {"name": "elsewhere"}})
    async with watch(resourceVersion=since, allowWatchBookmarks="true") as events:
        bookmark = await events.next()
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "Widget")
    assert bookmark["object"]["metadata"]["resourceVersion"] == made.json()["metadata"]["resourceVersion"]


async def test_the_end_of_initial_events_is_marked_when_asked_for(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """sendInitialEvents gives the objects and then a bookmark that says that these were all."""
    await remote.post(widgets, json=widget("a"))
    params = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    async with watch(**params, resourceVersionMatch="NotOlderThan") as events:
        assert await events.take(1) == [("ADDED", "a")]
        end = await events.next()
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_ends_at_its_timeout(watch: Any) -> None:
    """timeoutSeconds ends the stream in good order."""
    started = time.monotonic()
    async with watch(timeoutSeconds=1) as events:
        assert await events.rest() == []
    assert time.monotonic() - started > 0.9


async def test_a_table_watch_prints_rows(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """Asked for Tables, each event is one row; only the first has the columns."""
    async with watch(headers=TABLE) as events:
        await remote.post(widgets, json=widget("a"))
        await remote.post(widgets, json=widget("b", color="blue"))
        first, second = await events.next(), await events.next()
    names = [column["name"] for column in first["object"]["columnDefinitions"]]
    assert names == ["Name", "Color", "Size"]
    assert [first["object"]["rows"][0]["cells"], second["object"]["rows"][0]["cells"]] == [
        ["a", "red", 1],
        ["b", "blue", 1],
    ]
    assert second["object"]["columnDefinitions"] is None


async def test_watches_share_the_rows_of_large_objects_too(
    server: Running, remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """The first event of a watch, a large object, and one that leaves a selection are made once for all."""
    encodings = server.parts.rest.encodings
    large = widget("a", {"in": "yes"})
    large["metadata"]["annotations"] = {"weight": "x" * 100_000}
    chosen = {"resourceVersion": await revision(remote, widgets), "labelSelector": "in=yes"}
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(watch(headers=TABLE, **chosen)) for _ in range(12)]
        for change, type_ in (
            (lambda: remote.post(widgets, json=large), "ADDED"),
            (lambda: patch(remote, f"{widgets}/a", {"spec": {"color": "blue"}}), "MODIFIED"),
            (lambda: patch(remote, f"{widgets}/a", {"metadata": {"labels": None}}), "DELETED"),
        ):
            made = encodings.statistics()["made"]
            await change()
            seen = [await events.next() for events in opened]
            assert [event["type"] for event in seen] == [type_] * 12
            assert 1 <= encodings.statistics()["made"] - made < 6


async def test_many_table_watches_share_their_rows(
    server: Running, remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """What a write looks like is made once in a second for each form, not for each watcher of it."""
    encodings = server.parts.rest.encodings
    await remote.post(widgets, json=widget("a", {"in": "yes"}))
    selections = [{}, {}, {}, {}, {"labelSelector": "in=yes"}, {"labelSelector": "in=yes"}]
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(watch(headers=TABLE, **chosen)) for chosen in selections]
        assert [(await events.next())["type"] for events in opened] == ["ADDED"] * 6
        made = encodings.statistics()["made"]
        await patch(remote, f"{widgets}/a", {"spec": {"color": "blue"}})
        seen = [await events.next() for events in opened]
        assert 1 <= encodings.statistics()["made"] - made < 4
    assert seen == seen[:1] * 6
    assert seen[0]["object"]["rows"][0]["cells"] == ["a", "blue", 1]


async def test_what_leaves_a_selection_is_not_taken_for_what_it_became(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """Of one write, who selected the object before sees what it was, and who sees all what it is."""
    await remote.post(widgets, json=widget("a", {"in": "yes"}))
    async with watch(headers=TABLE) as everything, watch(headers=TABLE, labelSelector="in=yes") as selected:
        await everything.next()
        await selected.next()
        await patch(remote, f"{widgets}/a", {"metadata": {"labels": None}, "spec": {"color": "blue"}})
        became, was = await everything.next(), await selected.next()
    assert (became["type"], became["object"]["rows"][0]["cells"][1]) == ("MODIFIED", "blue")
    assert (was["type"], was["object"]["rows"][0]["cells"][1]) == ("DELETED", "red")


async def test_a_version_from_before_the_start_is_expired(
    tmp_path: Path, widget_definition: Any, widgets: str
) -> None:
    """What the log does not have is answered by an ERROR event with Status 410, which counts as an error, and
    the stream ends."""
    config = Config(tmp_path, port=0, definitions=[widget_definition])
    async with running(config):
        pass
    async with running(config) as server, connect(server) as client:
        answer = await client.get(widgets, params={"watch": "true", "resourceVersion": "1"})
    assert answer.status_code == 200
    only = answer.json()
    assert (only["type"], only["object"]["code"], only["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert server.parts.shared.errors == {410: 1}


async def test_a_version_from_the_future_is_refused(remote: httpx2.AsyncClient, widgets: str) -> None:
    """A version that this server has not reached is told at once, not waited for."""
    answer = await remote.get(widgets, params={"watch": "true", "resourceVersion": "999999"})
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


async def test_a_change_is_seen_at_once(
    remote: httpx2.AsyncClient, watch: Any, widget: Any, widgets: str
) -> None:
    """From the acknowledged write to the event, nothing waits for its turn: half take less than a second."""
    await remote.post(widgets, json=widget("a"))
    delays = []
    async with watch() as events:
        await events.next()
        for size in range(20):
            await patch(remote, f"{widgets}/a", {"spec": {"size": size + 10}})
            written = time.monotonic()
            await events.next()
            delays.append(time.monotonic() - written)
    assert sorted(delays)[10] < 1  # milliseconds, on a machine that is not busy


async def test_watches_end_when_the_server_stops(tmp_path: Any, widget_definition: Any, widgets: str) -> None:
    """Stopping ends open watches at once and in good order, without waiting for their timeouts."""
    async with asyncio.TaskGroup() as tasks:
        async with running(Config(tmp_path, port=0, definitions=[widget_definition])) as server:
            opened = asyncio.Event()
            ended = tasks.create_task(_watch_to_the_end(server, widgets, opened))
            await opened.wait()
            stopping = time.monotonic()
        assert time.monotonic() - stopping < 20
        assert await ended == 0


async def _watch_to_the_end(server: Running, widgets: str, opened: asyncio.Event) -> int:
    async with connect(server) as client, client.stream("GET", widgets, params={"watch": "true"}) as response:
        opened.set()
        return len([line async for line in response.aiter_lines()])


def connect(server: Running) -> httpx2.AsyncClient:
    context = ssl.create_default_context(cafile=server.identity.ca)
    headers = {"authorization": f"Bearer {server.identity.token}"}
    return httpx2.AsyncClient(base_url=server.url, verify=context, headers=headers)


async def watchers_become(server: Running, count: int) -> None:
    async with asyncio.timeout(30):
        while server.parts.statistics()["hub"]["watchers"] != count:
            await asyncio.sleep(0.01)


async def test_a_client_that_leaves_is_forgotten(
    server: Running, remote: httpx2.AsyncClient, watch: Any
) -> None:
    """When the client closes its connection, the watch is over, even if nothing ever changes."""
    async with watch():
        await watchers_become(server, 1)
    await remote.aclose()
    await watchers_become(server, 0)
