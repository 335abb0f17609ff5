"""A definition that becomes stricter, or gets a default, does not lock the objects that it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example"


async def change_schema(client: httpx2.AsyncClient, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the schema of the Widget's spec."""
    stored = (await client.get(DEFINITION)).json()
    change(stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    answer = await client.put(DEFINITION, json=stored)
    assert answer.status_code == 200, answer.text


async def patched(client: httpx2.AsyncClient, widgets: str, **spec: Any) -> httpx2.Response:
    headers = {"content-type": "application/merge-patch+json"}
    return await client.patch(f"{widgets}/w", json={"spec": spec}, headers=headers)


async def test_what_was_valid_once_may_stay(client: httpx2.AsyncClient, widgets: str, widget: Any) -> None:
    """The rest of the object can be changed; the value itself only to a valid one."""
    assert (await client.post(widgets, json=widget(color="red"))).status_code == 201
    await change_schema(client, lambda spec: spec["properties"]["color"].update(enum=["blue", "green"]))
    assert (await patched(client, widgets, size=5)).status_code == 200
    assert (await client.post(widgets, json=widget("v", color="red"))).status_code == 422
    await change_schema(client, lambda spec: spec["properties"]["color"].update(enum=["green"]))
    refused = await patched(client, widgets, color="blue")
    assert [cause["field"] for cause in refused.json()["details"]["causes"]] == ["spec.color"]
    assert (await patched(client, widgets, color="green")).status_code == 200


async def test_a_new_default_is_no_change(client: httpx2.AsyncClient, widgets: str, widget: Any) -> None:
    """A rule that forbids changes doesn't take the default for one."""
    assert (await client.post(widgets, json=widget(color="red"))).status_code == 201

    def freeze(spec: dict[str, Any]) -> None:
        spec["properties"]["shape"] = {"type": "string", "default": "round"}
        spec["x-kubernetes-validations"] = [{"rule": "self.shape == oldSelf.shape", "message": "is fixed"}]

    await change_schema(client, freeze)
    answer = await patched(client, widgets, size=5)
    assert (answer.status_code, answer.json()["spec"]["shape"]) == (200, "round")
    assert (await patched(client, widgets, shape="flat")).status_code == 422
