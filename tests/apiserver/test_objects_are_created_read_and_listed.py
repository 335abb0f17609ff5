"""Create, get and list through HTTP, as any client does it."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from headgate.apiserver import metadata


async def test_a_created_object_has_what_the_server_gives(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """A new object gets a UID, a creation time, generation 1, a resource version, and its defaults."""
    answer = await client.post(widgets, json=widget())
    assert answer.status_code == 201
    meta = answer.json()["metadata"]
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert meta["generation"] == 1
    assert int(meta["resourceVersion"]) > 1
    assert answer.json()["spec"] == {"color": "red", "size": 1}
    assert (await client.get(f"{widgets}/w")).json() == answer.json()


async def test_a_second_object_of_the_name_is_refused(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """Creating what exists is 409 AlreadyExists, in Kubernetes' words."""
    await client.post(widgets, json=widget())
    answer = await client.post(widgets, json=widget())
    assert answer.status_code == 409
    assert answer.json()["reason"] == "AlreadyExists"
    assert answer.json()["message"] == 'widgets.test.example "w" already exists'
    assert answer.json()["details"] == {"name": "w", "group": "test.example", "kind": "widgets"}


async def test_generate_name_makes_unique_names(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """generateName is a prefix from which each create makes another name."""
    names = set()
    for _ in range(5):
        obj = widget()
        obj["metadata"] = {"generateName": "some-"}
        names.add((await client.post(widgets, json=obj)).json()["metadata"]["name"])
    assert len(names) == 5
    assert all(name.startswith("some-") and len(name) == 10 for name in names)


async def test_the_namespace_must_exist(client: httpx2.AsyncClient, widget: Any) -> None:
    """An object cannot be created in a namespace that is not there."""
    answer = await client.post("/apis/test.example/v1/namespaces/nowhere/widgets", json=widget())
    assert (answer.status_code, answer.json()["message"]) == (404, 'namespaces "nowhere" not found')


async def test_a_dry_run_stores_nothing(client: httpx2.AsyncClient, widget: Any, widgets: str) -> None:
    """dryRun=All answers as if, and leaves the store as it was."""
    answer = await client.post(widgets, json=widget(), params={"dryRun": "All"})
    assert (answer.status_code, answer.json()["spec"]["size"]) == (201, 1)
    assert (await client.get(f"{widgets}/w")).status_code == 404


async def test_a_list_comes_in_pages(client: httpx2.AsyncClient, widget: Any, widgets: str) -> None:
    """limit and continue walk over all objects once, in order of their names, under one resource version."""
    for number in range(7):
        await client.post(widgets, json=widget(f"w{number}"))
    seen, versions, token = [], set(), ""
    while True:
        page = (await client.get(widgets, params={"limit": 3, "continue": token})).json()
        seen += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
        assert page["metadata"]["remainingItemCount"] == 7 - len(seen)
    assert seen == [f"w{number}" for number in range(7)]
    assert len(versions) == 1


async def test_a_list_of_all_namespaces_has_the_kind_of_a_list(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """Without a namespace in the path, objects of all namespaces are listed."""
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "other"}})
    await client.post(widgets, json=widget())
    await client.post(widgets.replace("default", "other"), json=widget())
    answer = (await client.get("/apis/test.example/v1/widgets")).json()
    assert answer["kind"] == "WidgetList"
    assert [item["metadata"]["namespace"] for item in answer["items"]] == ["default", "other"]


async def test_a_list_is_narrowed_by_selectors(client: httpx2.AsyncClient, widget: Any, widgets: str) -> None:
    """Label and field selectors narrow a list; a field that cannot be selected is told."""
    await client.post(widgets, json=widget("a", labels={"tier": "x"}))
    await client.post(widgets, json=widget("b", labels={"tier": "y"}))

    async def names(**params: str) -> list[str]:
        items = (await client.get(widgets, params=params)).json()["items"]
        return [item["metadata"]["name"] for item in items]

    assert await names(labelSelector="tier in (x, z)") == ["a"]
    assert await names(labelSelector="tier!=x") == ["b"]
    assert await names(fieldSelector="metadata.name=b") == ["b"]
    assert await names(fieldSelector="metadata.name=b", labelSelector="tier=x") == []
    refused = await client.get(widgets, params={"fieldSelector": "spec.color=red"})
    assert refused.status_code == 400
    assert "field label not supported: spec.color" in refused.json()["message"]


async def test_what_does_not_exist_is_not_found(client: httpx2.AsyncClient, widgets: str) -> None:
    """A missing object and a missing kind are both 404, told apart by their message."""
    missing = await client.get(f"{widgets}/none")
    assert missing.json()["message"] == 'widgets.test.example "none" not found'
    unknown = await client.get("/apis/test.example/v1/namespaces/default/gadgets")
    assert unknown.json()["message"] == "the server could not find the requested resource"
    assert missing.status_code == unknown.status_code == 404


async def test_a_generated_name_that_is_taken_is_tried_again(
    client: httpx2.AsyncClient, config_maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another suffix is taken if one is in use, and 409 answers when none is found."""
    suffixes = iter(["aaaaa", "aaaaa", "bbbbb"] + ["aaaaa"] * 8)
    monkeypatch.setattr(metadata, "generate_name", lambda prefix: prefix + next(suffixes))
    made = [await client.post(config_maps, json={"metadata": {"generateName": "x-"}}) for _ in range(3)]
    assert [answer.status_code for answer in made] == [201, 201, 409]
    assert made[1].json()["metadata"]["name"] == "x-bbbbb"
    assert made[2].json()["reason"] == "AlreadyExists"
