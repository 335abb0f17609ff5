"""Informers follow the objects of a process without an API server as they follow those of a server."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.api.stored_object import StoredObject
from headgate.cluster import Informer, LocalObjects, NamedObjects, local_objects

PODS = api.Pod.resource.path()


def pod(name: str, label: str = "", namespace: str = "default") -> StoredObject:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"x": label}}
    return StoredObject(PODS, namespace, name, msgspec.json.encode({"metadata": metadata}))


def copy(informer: Informer[api.Pod]) -> dict[str, str]:
    return {each.metadata.name: each.metadata.labels["x"] for each in informer.items()}


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=8), st.integers(0, 7)
)
def test_the_copy_is_what_there_is(history: list[dict[str, str]], late: int) -> None:
    """Whenever it begins, and every change is reported once."""

    async def scenario() -> None:
        objects = LocalObjects()
        informer, seen = Informer(objects, api.Pod), []
        informer.subscribe(lambda change: seen.append(change.object.metadata.name))
        task = None
        for number, present in enumerate(history):
            if number == late:
                task = asyncio.create_task(informer.run())
                await settled()
            objects.replace([pod(name, label) for name, label in present.items()])
            before = len(seen)
            await settled()
            if task is not None:
                assert copy(informer) == present
                assert len(seen) - before == len(set(seen[before:]))
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


async def test_lists_wait_for_the_first_objects() -> None:
    """A gateway is not ready before it knows them."""
    objects = LocalObjects()
    informer = Informer(objects, api.Pod, may_be_absent=True)
    task = asyncio.create_task(informer.run())
    await settled()
    assert not informer.synced.is_set()
    objects.replace([])
    await informer.wait_synced(5)
    task.cancel()


async def test_a_watch_that_is_far_behind_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_objects, "MAX_EVENTS", 3)
    objects = LocalObjects()
    objects.replace([pod("a")])
    informer = Informer(objects, api.Pod)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced(5)
    for number in range(9):
        objects.replace([pod("b", str(number)), pod("c", str(number))])
    await settled()
    assert copy(informer) == {"b": "8", "c": "8"}
    assert informer.statistics().relists == 2
    task.cancel()


async def test_namespaces_and_names_are_told_apart() -> None:
    objects = LocalObjects()
    objects.replace([pod("a"), pod("b"), pod("a", namespace="other")])
    informer = Informer(objects, api.Pod, "other")
    seen: list[api.ObjectKey] = []
    named = NamedObjects(objects, api.Pod, lambda change: seen.append(change.object.metadata.key))
    named.follow([api.ObjectKey("default", "b")])
    tasks = [asyncio.create_task(informer.run()), asyncio.create_task(named.run())]
    await informer.wait_synced(5)
    await named.wait_known(5)
    assert copy(informer) == {"a": ""}
    assert seen == [api.ObjectKey("default", "b")]
    objects.replace([pod("a"), pod("a", "x", namespace="other")])
    await settled()
    assert copy(informer) == {"a": "x"}
    assert named.items() == []
    for task in tasks:
        task.cancel()
