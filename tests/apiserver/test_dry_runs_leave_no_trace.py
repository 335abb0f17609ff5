"""dryRun=All on every kind of write: answered as if, with nothing stored, registered or told."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

from headgate.apiserver.parts import Parts

DRY = {"dryRun": "All", "fieldManager": "me"}
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def revision(client: httpx2.AsyncClient, parts: Parts, widget: Any, widgets: str) -> int:
    """The revision of a store with a Widget in it."""
    assert (await client.post(widgets, json=widget("w"))).status_code == 201
    return parts.store.revision


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code"),
    [
        ("POST", "", {"metadata": {"name": "n"}, "spec": {"color": "red"}}, "application/json", 201),
        ("POST", "", {"metadata": {"generateName": "n-"}, "spec": {"color": "red"}}, "application/json", 201),
        ("PATCH", "/w", {"spec": {"size": 9}}, MERGE, 200),
        (
            "PATCH",
            "/w",
            [{"op": "add", "path": "/spec/size", "value": 9}],
            "application/json-patch+json",
            200,
        ),
        ("PATCH", "/w/status", {"status": {"phase": "x"}}, MERGE, 200),
        ("PATCH", "/w/scale", {"spec": {"replicas": 9}}, MERGE, 200),
        ("PUT", "/w/scale", {"metadata": {"name": "w"}, "spec": {"replicas": 9}}, "application/json", 200),
        ("PATCH", "/new", {"metadata": {"name": "new"}, "spec": {"color": "blue"}}, APPLY, 201),
        ("PATCH", "/w", {"metadata": {"name": "w"}, "spec": {"size": 9}}, APPLY, 200),
        ("DELETE", "/w", None, "application/json", 200),
        ("DELETE", "/w", {"propagationPolicy": "Foreground"}, "application/json", 200),
        ("DELETE", "", None, "application/json", 200),
    ],
)
async def test_nothing_is_stored(
    client: httpx2.AsyncClient,
    parts: Parts,
    widgets: str,
    revision: int,
    method: str,
    path: str,
    body: Any,
    media: str,
    code: int,
) -> None:
    """The answer is that of the write, and the store is as it was."""
    if media == APPLY:
        body = {"apiVersion": "test.example/v1", "kind": "Widget", **body}
    before = (await client.get(widgets)).json()
    params = DRY | ({"force": "true"} if media == APPLY else {})
    answer = await client.request(
        method, widgets + path, json=body, params=params, headers={"content-type": media}
    )
    assert answer.status_code == code, answer.text
    if path.endswith("/scale"):
        assert answer.json()["spec"]["replicas"] == 9
    assert parts.store.revision == revision
    assert (await client.get(widgets)).json() == before


async def test_a_kind_that_is_tried_is_not_served(client: httpx2.AsyncClient, widget_definition: Any) -> None:
    """A definition is checked in a dry run, and its kind does not come."""
    definition = copy.deepcopy(widget_definition)
    definition["metadata"]["name"] = "gadgets.test.example"
    definition["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client.post(url, json=definition, params={"dryRun": "All"})).status_code == 201
    assert (await client.get("/apis/test.example/v1/gadgets")).status_code == 404
