"""Optimistic concurrency, generations, and the separation of spec and status."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest


@pytest.fixture
async def stored(client: httpx2.AsyncClient, widget: Any, widgets: str) -> Any:
    return (await client.post(widgets, json=widget())).json()


async def test_a_stale_update_is_refused(client: httpx2.AsyncClient, stored: Any, widgets: str) -> None:
    """Who writes an older resource version gets 409 Conflict and is told to read again."""
    assert (await client.put(f"{widgets}/w", json=stored | {"spec": {"color": "blue"}})).status_code == 200
    answer = await client.put(f"{widgets}/w", json=stored | {"spec": {"color": "red"}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert answer.json()["message"] == (
        'Operation cannot be fulfilled on widgets.test.example "w": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_a_custom_object_needs_its_version_to_be_replaced(
    client: httpx2.AsyncClient, stored: Any, widgets: str
) -> None:
    """A PUT without resourceVersion is invalid for custom kinds, as in Kubernetes."""
    del stored["metadata"]["resourceVersion"]
    answer = await client.put(f"{widgets}/w", json=stored)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "metadata.resourceVersion"


async def test_only_the_spec_counts_generations(
    client: httpx2.AsyncClient, stored: Any, widgets: str
) -> None:
    """Labels and status leave the generation alone; a change of the spec raises it."""

    async def patched(path: str, body: Any) -> int:
        answer = await client.patch(path, json=body, headers={"content-type": "application/merge-patch+json"})
        return int(answer.json()["metadata"]["generation"])

    assert await patched(f"{widgets}/w", {"metadata": {"labels": {"a": "b"}}}) == 1
    assert await patched(f"{widgets}/w/status", {"status": {"phase": "x"}}) == 1
    assert await patched(f"{widgets}/w", {"spec": {"size": 2}}) == 2


async def test_spec_and_status_are_written_apart(
    client: httpx2.AsyncClient, stored: Any, widgets: str
) -> None:
    """A write of the object ignores the status, a write of the status ignores all else."""
    stored["status"] = {"phase": "a"}
    first = (await client.put(f"{widgets}/w", json=stored)).json()
    assert "status" not in first
    first |= {"status": {"phase": "b"}, "spec": {"color": "blue"}}
    second = (await client.put(f"{widgets}/w/status", json=first)).json()
    assert (second["status"], second["spec"]["color"]) == ({"phase": "b"}, "red")


async def test_a_write_that_changes_nothing_is_no_event(
    client: httpx2.AsyncClient, stored: Any, widgets: str
) -> None:
    """Replacing an object by itself keeps its version, so that controllers do not chase themselves."""
    answer = await client.put(f"{widgets}/w", json=stored)
    assert answer.json()["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


async def test_identity_cannot_be_changed(client: httpx2.AsyncClient, stored: Any, widgets: str) -> None:
    """Another UID is a conflict; another name or namespace is a bad request; times and counts are kept."""
    meta = stored["metadata"]
    wrong_uid = stored | {"metadata": meta | {"uid": "0"}}
    assert (await client.put(f"{widgets}/w", json=wrong_uid)).status_code == 409
    wrong_name = stored | {"metadata": meta | {"name": "other"}}
    assert (await client.put(f"{widgets}/w", json=wrong_name)).status_code == 400
    older = stored | {"metadata": meta | {"creationTimestamp": "2000-01-01T00:00:00Z", "generation": 77}}
    kept = (await client.put(f"{widgets}/w", json=older)).json()["metadata"]
    assert (kept["creationTimestamp"], kept["generation"]) == (meta["creationTimestamp"], 1)


async def test_scale_changes_the_replicas_of_any_kind(
    client: httpx2.AsyncClient, stored: Any, widgets: str
) -> None:
    """The scale subresource reads and writes the paths that the definition names."""
    scale = (await client.get(f"{widgets}/w/scale")).json()
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 1}, {"replicas": 0})
    scale["spec"]["replicas"] = 5
    assert (await client.put(f"{widgets}/w/scale", json=scale)).json()["spec"]["replicas"] == 5
    changed = (await client.get(f"{widgets}/w")).json()
    assert (changed["spec"]["size"], changed["metadata"]["generation"]) == (5, 2)
    stale = await client.put(f"{widgets}/w/scale", json=scale)
    assert stale.status_code == 409
