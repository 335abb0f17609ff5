"""Field selectors over HTTP: Kubernetes' fields of its own kinds, and those that a definition declares."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def names(client: httpx2.AsyncClient, url: str, selector: str) -> list[str]:
    answer = await client.get(url, params={"fieldSelector": selector})
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


@pytest.fixture
async def pods(client: httpx2.AsyncClient) -> str:
    url = "/api/v1/namespaces/default/pods"
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "")):
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
        spec |= {"nodeName": node} if node else {}
        answer = await client.post(url, json={"metadata": {"name": name}, "spec": spec})
        assert answer.status_code == 201, answer.text
    return url


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["c"]),
        ("spec.nodeName!=n1,status.phase=Pending", ["b", "c"]),
        ("spec.hostNetwork=false", ["a", "b", "c"]),
        ("metadata.name=b,metadata.namespace=default", ["b"]),
        ("metadata.namespace=other", []),
        ("spec.restartPolicy=Always,status.podIP=", ["a", "b", "c"]),
    ],
)
async def test_pods_are_selected_by_what_kubernetes_indexes(
    client: httpx2.AsyncClient, pods: str, selector: str, expected: list[str]
) -> None:
    """A field that is not set has the value that its type has then."""
    assert await names(client, pods, selector) == expected


async def test_events_are_selected_by_what_they_are_about(client: httpx2.AsyncClient) -> None:
    """`source` is the component that reports."""
    url = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "source": {"component": "node"},
        "type": "Normal",
    }
    assert (await client.post(url, json=event)).status_code == 201
    assert await names(client, url, "involvedObject.kind=Pod,source=node,type=Normal") == ["e"]
    assert await names(client, url, "involvedObject.name!=p") == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/pods", "field label not supported: spec.color"),
        ("/apis/test.example/v1/widgets", "field label not supported: spec.color"),
        (
            "/apis/apps/v1/deployments",
            '"spec.color" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_other_fields_are_refused_in_kubernetes_words(
    client: httpx2.AsyncClient, path: str, words: str
) -> None:
    """The words differ by kind, as they do there."""
    answer = await client.get(path, params={"fieldSelector": "spec.color=red"})
    assert (answer.status_code, answer.json()["message"]) == (400, words)


async def test_a_definition_declares_its_own(
    client: httpx2.AsyncClient, widget_definition: Any, widget: Any, widgets: str
) -> None:
    """selectableFields work in lists, and watches tell when an object begins to match."""
    definition = (await client.get(f"{DEFINITIONS}/widgets.test.example")).json()
    definition["spec"]["versions"][0]["selectableFields"] = [
        {"jsonPath": ".spec.color"},
        {"jsonPath": ".spec.size"},
    ]
    assert (await client.put(f"{DEFINITIONS}/widgets.test.example", json=definition)).status_code == 200
    await client.post(widgets, json=widget("a", color="red"))
    await client.post(widgets, json=widget("b", color="blue", size=3))
    assert await names(client, widgets, "spec.color=blue") == ["b"]
    assert await names(client, widgets, "spec.size!=3") == ["a"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([{"jsonPath": ".spec.tags"}], "must point to a field of type string, boolean or integer"),
        ([{"jsonPath": ".spec.nothing"}], "must point to a field of type"),
        ([{"jsonPath": "{.spec.color}"}], "is an invalid path"),
        ([{"jsonPath": ".metadata.name"}], "must not point to fields in metadata"),
        ([{}], "Required value"),
        ([{"jsonPath": ".spec.color"}] * 9, "must have at most 8 items"),
        ("x", "must be of type array"),
    ],
)
async def test_a_declaration_that_cannot_work_is_refused(
    client: httpx2.AsyncClient, widget_definition: Any, fields: Any, words: str
) -> None:
    """What is refused names the path in the definition."""
    definition = copy.deepcopy(widget_definition)
    definition["metadata"]["name"] = "gadgets.test.example"
    definition["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    definition["spec"]["versions"][0]["selectableFields"] = fields
    answer = await client.post(DEFINITIONS, json=definition)
    assert answer.status_code == 422
    assert words in answer.json()["message"]
    assert "spec.versions[0].selectableFields" in answer.json()["message"]
