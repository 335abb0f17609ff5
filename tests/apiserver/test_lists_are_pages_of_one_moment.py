"""Pages, resource versions, and what a client is told whose moment is too far back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts
from headgate.apiserver.selectors import Selector
from headgate.apiserver.snapshots import Snapshot
from headgate.apiserver.storage import Event, Key, Store

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abc"), st.sampled_from("wxyz")),
    max_size=12,
)


async def make(client: httpx2.AsyncClient, url: str, *names: str) -> None:
    for name in names:
        assert (await client.post(url, json={"metadata": {"name": name}})).status_code == 201


async def page(client: httpx2.AsyncClient, url: str, **params: Any) -> tuple[list[str], dict[str, Any]]:
    answer = await client.get(url, params=params)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return [item["metadata"]["name"] for item in body["items"]], body["metadata"]


@given(STEPS, STEPS, st.sampled_from(["", "a", "b"]), st.sampled_from([("", ""), ("a", "x"), ("b", "")]))
@settings(max_examples=60, deadline=None)
def test_a_snapshot_is_what_there_was(
    tmp_path_factory: Any, before: list[Any], later: list[Any], namespace: str, after: tuple[str, str]
) -> None:
    """Whatever is written after a moment, the snapshot of it has the objects, order and number of then."""
    store = Store(tmp_path_factory.mktemp("s") / "o.sqlite")
    events: list[Event] = []
    try:
        _write(store, before)
        then = list(store.select("things", namespace, after))
        store.listen(events.append)
        _write(store, later)
        snapshot = Snapshot(store, "things", namespace, events)
        assert list(snapshot.select(Selector(), after)) == then
        assert snapshot.count(after) == len(then)
    finally:
        store.close()


def test_a_snapshot_is_counted_without_reading_its_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of the rest of a list takes the number of rows and the changes, whatever else there is."""
    store = Store(tmp_path / "o.sqlite")
    events: list[Event] = []
    for name in "abcd":
        store.put(Key("things", "n", name), {"metadata": {"name": name}})
    store.flush()
    store.listen(events.append)
    store.put(Key("things", "n", "e"), {"metadata": {"name": "e"}})
    store.delete(Key("things", "n", "c"))
    store.flush()
    monkeypatch.delattr(Store, "select")
    assert Snapshot(store, "things", "", events).count(("n", "a")) == 3
    store.close()


def _write(store: Store, steps: list[Any]) -> None:
    for what, namespace, name in steps:
        key = Key("things", namespace, name)
        if what == "put":
            store.put(key, {"metadata": {"name": name}})
        elif store.get(key):
            store.delete(key)


async def test_later_pages_show_the_moment_of_the_first(client: httpx2.AsyncClient, config_maps: str) -> None:
    """What was created, changed or deleted in between does not show, and the count fits."""
    await make(client, config_maps, "a", "b", "c", "d", "e")
    names, first = await page(client, config_maps, limit=2)
    assert (names, first["remainingItemCount"]) == (["a", "b"], 3)
    await make(client, config_maps, "bb", "z")
    await client.delete(f"{config_maps}/c")
    patched = {"content-type": "application/merge-patch+json"}
    await client.patch(f"{config_maps}/d", json={"data": {"new": "x"}}, headers=patched)
    answer = await client.get(config_maps, params={"limit": 2, "continue": first["continue"]})
    second = answer.json()
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert "data" not in second["items"][1]
    assert second["metadata"]["remainingItemCount"] == 1
    assert second["metadata"]["resourceVersion"] == first["resourceVersion"]
    names, last = await page(client, config_maps, limit=2, **{"continue": second["metadata"]["continue"]})
    assert names == ["e"]
    assert "continue" not in last


async def test_an_expired_list_may_go_on_inconsistently(tmp_path: Path) -> None:
    """410 comes with a token that gives the rest as it is now."""
    parts = Parts(Config(tmp_path, definitions=[], watch_events=4))
    headers = {"authorization": "Bearer t"}
    url = "/api/v1/namespaces/default/configmaps"
    transport = httpx2.ASGITransport(application(parts, "t"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        await make(client, url, "a", "b", "c")
        _, meta = await page(client, url, limit=1)
        await make(client, url, *(f"x{n}" for n in range(8)))
        answer = await client.get(url, params={"limit": 5, "continue": meta["continue"]})
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
        assert "inconsistent list" in answer.json()["message"]
        fresh = answer.json()["metadata"]["continue"]
        names, _ = await page(client, url, limit=5, **{"continue": fresh})
        assert names == ["b", "c", "x0", "x1", "x2"]
        old = await client.get(url, params={"resourceVersion": "3", "resourceVersionMatch": "Exact"})
        assert (old.status_code, old.json()["reason"]) == (410, "Expired")
    parts.store.close()


async def test_a_list_at_a_version_is_exact_or_not_older(
    client: httpx2.AsyncClient, config_maps: str
) -> None:
    """Exact shows the past; NotOlderThan, 0 and nothing show what is now."""
    await make(client, config_maps, "a")
    _, then = await page(client, config_maps)
    await make(client, config_maps, "b")
    version = then["resourceVersion"]
    exact, meta = await page(client, config_maps, resourceVersion=version, resourceVersionMatch="Exact")
    assert (exact, meta["resourceVersion"]) == (["a"], version)
    for params in (
        {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "0"},
    ):
        assert (await page(client, config_maps, **params))[0] == ["a", "b"]


@pytest.mark.parametrize("path", ["", "/a"])
async def test_a_version_of_the_future_is_a_timeout(
    client: httpx2.AsyncClient, config_maps: str, path: str
) -> None:
    """504 with a cause that clients know, for lists and gets."""
    await make(client, config_maps, "a")
    answer = await client.get(config_maps + path, params={"resourceVersion": "99999"})
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersion": "5", "resourceVersionMatch": "Newest"}, 422, 'supported values: "Exact"'),
        (
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            422, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"watch": "1", "resourceVersionMatch": "Exact"}, 422, "is forbidden for watch unless"),
        ({"watch": "1", "sendInitialEvents": "true"}, 422, "requires setting resourceVersionMatch"),
        ({"continue": "WzEsImEiLCJiIl0=", "resourceVersion": "1"}, 400, "not allowed when using continue"),
        ({"continue": "x"}, 400, "continue key is not valid"),
        ({"resourceVersion": "x"}, 400, "must be a number"),
    ],
)  # fmt: skip
async def test_options_that_do_not_go_together_are_refused(
    client: httpx2.AsyncClient, config_maps: str, params: dict[str, str], code: int, words: str
) -> None:
    """In the words of apimachinery's validation of ListOptions."""
    answer = await client.get(config_maps, params=params)
    assert answer.status_code == code
    assert words in answer.json()["message"]
    if code == 422:
        assert answer.json()["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ')


PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


async def test_metadata_alone_is_answered_on_request(client: httpx2.AsyncClient, config_maps: str) -> None:
    """Clients that only need metadata (garbage collectors, metadata informers) get no more than that."""
    await client.post(config_maps, json={"metadata": {"name": "a"}, "data": {"k": "v"}})
    one = (await client.get(f"{config_maps}/a", headers={"accept": PARTIAL})).json()
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["name"] == "a"
    assert "data" not in one
    all_ = (await client.get(config_maps, headers={"accept": PARTIAL_LIST})).json()
    assert all_["kind"] == "PartialObjectMetadataList"
    assert [set(item) for item in all_["items"]] == [{"kind", "apiVersion", "metadata"}]
    assert all_["metadata"]["resourceVersion"]


async def test_a_watch_of_metadata_has_nothing_else(client: httpx2.AsyncClient, config_maps: str) -> None:
    """Events and bookmarks are PartialObjectMetadata."""
    await client.post(config_maps, json={"metadata": {"name": "a"}, "data": {"k": "v"}})
    params = {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }
    answer = await client.get(config_maps, params=params, headers={"accept": PARTIAL})
    lines = [line for line in answer.text.splitlines() if line]
    assert all('"kind":"PartialObjectMetadata"' in line and '"data"' not in line for line in lines)
    assert '"k8s.io/initial-events-end":"true"' in lines[1]


def test_a_late_page_costs_what_an_early_one_does(tmp_path: Path) -> None:
    """What is before the page, or in other namespaces, is not looked at: SQLite's steps are few."""
    store = Store(tmp_path / "o.sqlite")
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    try:
        _write(store, [("put", space, f"{number:04}") for space in "abc" for number in range(400)])
        store._db.set_progress_handler(count, 10)
        for namespace, after in (("", ("b", "0390")), ("b", ("b", "0390")), ("b", ("a", "0000"))):
            page = store.select("things", namespace, after)
            assert [next(page).key.namespace for _ in range(5)] == ["b"] * 5
            page.close()
        assert list(store.select("things", "b", ("c", ""))) == []
    finally:
        store._db.set_progress_handler(None, 10)
        store.close()
    assert steps < 100
