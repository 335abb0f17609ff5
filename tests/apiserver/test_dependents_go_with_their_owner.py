"""The background collector: owner references, namespaces, definitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest

from headgate.apiserver.parts import Parts


@pytest.fixture
async def collected(parts: Parts) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Awaiting it gives the collector the time to work off everything that is due."""
    task = asyncio.create_task(parts.collector.run())

    async def settle() -> None:
        for _ in range(200):
            await parts.store.settled()
            await asyncio.sleep(0)
            if not parts.collector.statistics()["due"]:
                return
        raise AssertionError(f"the collector does not come to rest: {parts.collector.statistics()}")

    yield settle
    task.cancel()


def owned_by(obj: Any, *owners: Any, blocks: bool = False) -> Any:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    return obj | {"metadata": obj["metadata"] | {"ownerReferences": references}}


async def names(client: httpx2.AsyncClient, url: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.get(url)).json()["items"]]


async def test_a_chain_of_dependents_goes(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """Deleting the owner deletes its dependents and theirs."""
    a = (await client.post(widgets, json=widget("a"))).json()
    b = (await client.post(widgets, json=owned_by(widget("b"), a))).json()
    await client.post(widgets, json=owned_by(widget("c"), b))
    await client.delete(f"{widgets}/a")
    await collected()
    assert await names(client, widgets) == []


async def test_a_dependent_stays_while_one_owner_lives(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """Of two owners the dead one's reference is taken off."""
    a = (await client.post(widgets, json=widget("a"))).json()
    b = (await client.post(widgets, json=widget("b"))).json()
    await client.post(widgets, json=owned_by(widget("c"), a, b))
    await client.delete(f"{widgets}/a")
    await collected()
    owners = (await client.get(f"{widgets}/c")).json()["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["b"]


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
async def test_who_left_its_owner_stays(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str, policy: str
) -> None:
    """An object whose owner reference was taken off is nobody's dependent any more."""
    a = (await client.post(widgets, json=widget("a"))).json()
    b = (await client.post(widgets, json=owned_by(widget("b"), a, blocks=True))).json()
    del b["metadata"]["ownerReferences"]
    assert (await client.put(f"{widgets}/b", json=b)).status_code == 200
    await client.delete(f"{widgets}/a", params={"propagationPolicy": policy})
    await collected()
    assert await names(client, widgets) == ["b"]


async def test_who_names_a_dead_owner_goes(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """An object whose owner is gone already is collected; a new object of the owner's name is another."""
    a = (await client.post(widgets, json=widget("a"))).json()
    await client.delete(f"{widgets}/a")
    await client.post(widgets, json=widget("a"))
    await client.post(widgets, json=owned_by(widget("late"), a))
    await collected()
    assert await names(client, widgets) == ["a"]


async def test_orphans_stay_without_their_owner(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """propagationPolicy Orphan keeps the dependents and takes the reference off."""
    a = (await client.post(widgets, json=widget("a"))).json()
    await client.post(widgets, json=owned_by(widget("b"), a))
    await client.request("DELETE", f"{widgets}/a", json={"propagationPolicy": "Orphan"})
    await collected()
    assert await names(client, widgets) == ["b"]
    assert "ownerReferences" not in (await client.get(f"{widgets}/b")).json()["metadata"]


async def test_foreground_deletion_waits_for_blocking_dependents(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """With policy Foreground the owner is there, marked, until the last blocking dependent went."""
    a = (await client.post(widgets, json=widget("a"))).json()
    held = owned_by(widget("b"), a, blocks=True)
    held["metadata"]["finalizers"] = ["test.example/hold"]
    await client.post(widgets, json=held)
    await client.request("DELETE", f"{widgets}/a", json={"propagationPolicy": "Foreground"})
    await collected()
    assert "foregroundDeletion" in (await client.get(f"{widgets}/a")).json()["metadata"]["finalizers"]
    await client.patch(
        f"{widgets}/b",
        json=[{"op": "remove", "path": "/metadata/finalizers/0"}],
        headers={"content-type": "application/json-patch+json"},
    )
    await collected()
    assert await names(client, widgets) == []


async def test_a_namespace_goes_with_its_content(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """A deleted namespace takes nothing new, loses its content, then goes itself."""
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "ns"}})
    inside = widgets.replace("default", "ns")
    held = widget()
    held["metadata"]["finalizers"] = ["test.example/hold"]
    await client.post(inside, json=held)
    terminating = (await client.delete("/api/v1/namespaces/ns")).json()
    assert terminating["status"]["phase"] == "Terminating"
    refused = await client.post(inside, json=widget("late"))
    assert (refused.status_code, refused.json()["details"]["causes"][0]["reason"]) == (
        403,
        "NamespaceTerminating",
    )
    headers = {"content-type": "application/merge-patch+json"}
    await client.patch(f"{inside}/w", json={"metadata": {"finalizers": None}}, headers=headers)
    await collected()
    assert (await client.get("/api/v1/namespaces/ns")).status_code == 404
    assert await names(client, "/apis/test.example/v1/widgets") == []


async def test_a_namespace_keeps_its_hold_on_its_content(client: httpx2.AsyncClient) -> None:
    """An update cannot take the namespace's own finalizer off; the first namespaces cannot be deleted."""
    space = (await client.post("/api/v1/namespaces", json={"metadata": {"name": "ns"}})).json()
    updated = (await client.put("/api/v1/namespaces/ns", json=space | {"spec": {}})).json()
    assert updated["spec"] == {"finalizers": ["kubernetes"]}
    refused = await client.delete("/api/v1/namespaces/default")
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")


async def test_a_definition_goes_with_its_objects(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """Deleting a CustomResourceDefinition deletes the objects, then the kind is no longer served."""
    await client.post(widgets, json=widget())
    await client.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example")
    await collected()
    assert (await client.get(widgets)).status_code == 404


async def test_foreground_deletion_lets_go_of_who_has_another_owner(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """A dependent with an owner that stays loses the reference, not its life."""
    a = (await client.post(widgets, json=widget("a"))).json()
    other = (await client.post(widgets, json=widget("other"))).json()
    await client.post(widgets, json=owned_by(widget("b"), a, other, blocks=True))
    await client.request("DELETE", f"{widgets}/a", json={"propagationPolicy": "Foreground"})
    await collected()
    assert await names(client, widgets) == ["b", "other"]
    left = (await client.get(f"{widgets}/b")).json()["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["other"]


async def test_an_owner_in_another_namespace_is_none(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """References do not reach across namespaces, so the dependent goes as if its owner were dead."""
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "far"}})
    far = (await client.post(widgets.replace("default", "far"), json=widget("a"))).json()
    await client.post(widgets, json=owned_by(widget("b"), far))
    await collected()
    assert await names(client, widgets) == []


async def test_a_stuck_namespace_can_be_finalized_by_hand(
    client: httpx2.AsyncClient, collected: Any, widget: Any, widgets: str
) -> None:
    """PUT .../finalize without finalizers lets a Namespace go whose content does not."""
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "far"}})
    held = widget("b")
    held["metadata"]["finalizers"] = ["test.example/hold"]
    await client.post(widgets.replace("default", "far"), json=held)
    terminating = (await client.delete("/api/v1/namespaces/far")).json()
    assert terminating["status"]["phase"] == "Terminating"
    await collected()
    stuck = (await client.get("/api/v1/namespaces/far")).json()
    assert stuck["spec"]["finalizers"] == ["kubernetes"]
    refused = await client.post(widgets.replace("default", "far"), json=widget("c"))
    assert (refused.status_code, refused.json()["details"]["causes"][0]["reason"]) == (
        403,
        "NamespaceTerminating",
    )
    for nonsense in ({"finalizers": 5}, {"finalizers": [1]}, "x"):
        refused = await client.put("/api/v1/namespaces/far/finalize", json={**stuck, "spec": nonsense})
        assert refused.status_code == 400
    stuck["spec"] = {}
    assert (await client.put("/api/v1/namespaces/far/finalize", json=stuck)).status_code == 200
    await collected()
    assert (await client.get("/api/v1/namespaces/far")).status_code == 404


async def test_a_collection_is_deleted_up_to_a_limit(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """deletecollection takes selectors, a limit and dryRun, and answers with what it deleted."""
    for name in ("a", "b", "c"):
        await client.post(widgets, json=widget(name))
    tried = await client.request("DELETE", widgets, params={"dryRun": "All"})
    assert len(tried.json()["items"]) == 3
    gone = await client.request("DELETE", widgets, params={"limit": "2", "fieldSelector": "metadata.name!=a"})
    assert [item["metadata"]["name"] for item in gone.json()["items"]] == ["b", "c"]
    assert await names(client, widgets) == ["a"]
