"""Whoever deletes thousands of objects, or large ones, holds up nobody for longer than a few of them take."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest

from headgate.apiserver import collector
from headgate.apiserver.handlers import rest
from headgate.apiserver.parts import Parts
from headgate.apiserver.storage import Key, Stored
from headgate.apiserver.targets import Target, WriteOptions
from headgate.apiserver.turns import Turns

Object = dict[str, Any]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def target(parts: Parts, name: str = "") -> Target:
    served = parts.registry.find("", "v1", "configmaps")
    assert served
    return Target(served, "default", name)


def create(parts: Parts, name: str, size: int = 0, **metadata: Any) -> Object:
    obj = {"metadata": {"name": name} | metadata, "data": {"text": "x" * size}}
    return parts.objects.create(target(parts), obj, WriteOptions(), []).obj


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users who waited for their next turn in the middle of a request."""
    taken: list[str] = []
    resume = Turns.resume

    async def counted(self: Turns, user: str) -> None:
        taken.append(user)
        await resume(self, user)

    monkeypatch.setattr(Turns, "resume", counted)
    return taken


async def test_large_objects_of_a_collection_are_deleted_a_few_at_a_time(
    client: httpx2.AsyncClient, parts: Parts, turns: list[str]
) -> None:
    """Eight objects of 200 KB go two at a time, and the answer has all of them."""
    for number in range(8):
        create(parts, f"n{number}", 200_000)
    answer = await client.delete(CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == [f"n{n}" for n in range(8)]
    assert answer.json()["kind"] == "ConfigMapList"
    assert len(turns) >= 4
    assert (await client.get(CONFIG_MAPS)).json()["items"] == []


async def test_a_collection_is_searched_a_part_at_a_time(
    client: httpx2.AsyncClient, parts: Parts, turns: list[str]
) -> None:
    """A selector that matches nearly nothing has others served while the objects are looked through."""
    for number in range(2000):
        create(parts, f"n{number:04}", 500)
    create(parts, "zzz", labels={"last": "yes"})
    answer = await client.delete(CONFIG_MAPS, params={"labelSelector": "last=yes"})
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["zzz"]
    assert len(turns) >= 4
    assert parts.store.count_of("configmaps") == 2000


async def test_a_collection_is_deleted_up_to_a_limit(client: httpx2.AsyncClient, parts: Parts) -> None:
    """`limit` is of objects, not of those that are deleted at once."""
    for number in range(3 * rest.AT_ONCE):
        create(parts, f"n{number:02}")
    limit = 2 * rest.AT_ONCE + 1
    answer = await client.delete(CONFIG_MAPS, params={"limit": str(limit)})
    assert len(answer.json()["items"]) == limit
    assert parts.store.count_of("configmaps") == 3 * rest.AT_ONCE - limit


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
@pytest.mark.parametrize(("count", "size"), [(5 * collector.AT_ONCE, 0), (6, 200_000)])
async def test_dependents_of_an_owner_are_changed_a_few_at_a_time(
    client: httpx2.AsyncClient,
    parts: Parts,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    count: int,
    size: int,
) -> None:
    """No step changes more than a few of them, and at the end the owner is gone."""
    owner = create(parts, "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(count):
        create(parts, f"n{number:03}", size, ownerReferences=[reference | {"blockOwnerDeletion": True}])
    parts.store.flush()
    await client.delete(f"{CONFIG_MAPS}/owner", params={"propagationPolicy": policy})
    steps: list[int] = []
    look_at = collector.Collector._look_at

    def counted(self: Any, key: Key) -> None:
        before = parts.store.revision
        look_at(self, key)
        steps.append(parts.store.revision - before)

    monkeypatch.setattr(collector.Collector, "_look_at", counted)
    running = asyncio.create_task(parts.collector.run())
    async with asyncio.timeout(60):
        while parts.store.get(target(parts, "owner").key):
            await asyncio.sleep(0.005)
    running.cancel()
    most = collector.AT_ONCE if not size else 1 + collector.BYTES_AT_ONCE // size
    assert max(steps) <= most + 1  # with the owner itself
    left = (await client.get(CONFIG_MAPS)).json()["items"]
    assert len(left) == (count if policy == "Orphan" else 0)
    assert not any("ownerReferences" in item["metadata"] for item in left)


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"note": '"resourceVersion":"2"'},
        {'x"resourceVersion': "2"},
        {"resourceVersion": "2"},
        {"resourceVersion": "5"},
    ],
)
def test_the_last_state_of_an_object_has_the_version_of_its_deletion(
    parts: Parts, annotations: dict[str, str]
) -> None:
    """Whatever else in the object looks like its resourceVersion stays as it is."""
    store, key = parts.store, Key("configmaps", "default", "a")
    revision = str(store.revision + 1)
    notes = {
        name: revision if value == "2" else value.replace('"2"', f'"{revision}"')
        for name, value in annotations.items()
    }
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "uid": "u", "annotations": notes},
    }
    kept = store.put(key, obj)
    last: Stored = store.delete(key)
    expected = msgspec.json.decode(kept.body)
    expected["metadata"]["resourceVersion"] = str(last.revision)
    assert last.decode() == expected
