"""Server-side apply to a user's own kind: each list and map merges as its definition says."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGET = "/apis/test.example/v1/namespaces/default/gadgets/g"

TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "required": ["number"],
    "properties": {
        "number": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": TEXT,
    },
}
PAIR = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {"key": TEXT, "value": TEXT},
}
SPEC = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "pairs": {"type": "array", "x-kubernetes-list-type": "set", "items": PAIR},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["number", "protocol"],
            "items": PORT,
        },
        "steps": {"type": "array", "items": TEXT},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "selector": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": TEXT,
        },
        "size": {"x-kubernetes-int-or-string": True},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.fixture
async def gadgets(client: httpx2.AsyncClient, widget_definition: Any) -> httpx2.AsyncClient:
    """A client of a server that has the kind."""
    made = copy.deepcopy(widget_definition)
    made["metadata"]["name"] = "gadgets.test.example"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    version = made["spec"]["versions"][0]
    version["subresources"] = {}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    assert (await client.post(DEFINITIONS, json=made)).status_code == 201
    return client


async def apply(client: httpx2.AsyncClient, manager: str, **spec: Any) -> httpx2.Response:
    applied = {"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec}
    return await client.patch(
        GADGET,
        json=applied,
        params={"fieldManager": manager},
        headers={"content-type": "application/apply-patch+yaml"},
    )


async def applied(client: httpx2.AsyncClient, manager: str, **spec: Any) -> Any:
    """The spec after an apply that must succeed."""
    answer = await apply(client, manager, **spec)
    assert answer.status_code in (200, 201), answer.text
    return answer.json().get("spec", {})


async def conflicts(client: httpx2.AsyncClient, manager: str, **spec: Any) -> list[str]:
    """Fields of others that an apply would change."""
    answer = await apply(client, manager, **spec)
    assert answer.status_code == 409, answer.text
    return [cause["field"] for cause in answer.json()["details"]["causes"]]


async def test_members_of_a_set_belong_to_their_managers(gadgets: httpx2.AsyncClient) -> None:
    """Each may add and take away its own; one that both want stays until both let go."""
    await applied(gadgets, "a", tags=["x", "y"])
    assert await applied(gadgets, "b", tags=["y", "z"]) == {"tags": ["x", "y", "z"]}
    assert await applied(gadgets, "a", tags=["x"]) == {"tags": ["x", "y", "z"]}
    assert await applied(gadgets, "b") == {"tags": ["x"]}


async def test_members_of_a_set_may_be_atomic_objects(gadgets: httpx2.AsyncClient) -> None:
    """They are the same if all of their fields are, in whatever order."""
    await applied(gadgets, "a", pairs=[{"key": "k", "value": "1"}])
    both = await applied(gadgets, "b", pairs=[{"value": "1", "key": "k"}, {"key": "k", "value": "2"}])
    assert both == {"pairs": [{"key": "k", "value": "1"}, {"key": "k", "value": "2"}]}
    assert await applied(gadgets, "a") == both
    assert await applied(gadgets, "b") == {}


async def test_items_of_a_list_map_are_found_by_their_keys(gadgets: httpx2.AsyncClient) -> None:
    """A key that is left out has its default."""
    await applied(gadgets, "a", ports=[{"number": 80, "name": "http"}])
    merged = await applied(gadgets, "b", ports=[{"number": 80, "protocol": "UDP"}, {"number": 81}])
    assert merged["ports"] == [
        {"number": 80, "protocol": "TCP", "name": "http"},
        {"number": 80, "protocol": "UDP"},
        {"number": 81, "protocol": "TCP"},
    ]
    taken = await conflicts(gadgets, "b", ports=[{"number": 80, "protocol": "TCP", "name": "web"}])
    assert taken == ['.spec.ports[number=80,protocol="TCP"].name']


@pytest.mark.parametrize(
    ("first", "second", "then"),
    [
        ("abc", "ca", "ca"),
        ("abc", "bxay", "bxay"),
        ("ab", "", ""),
    ],
)
async def test_items_are_in_the_order_of_the_last_apply(
    gadgets: httpx2.AsyncClient, first: str, second: str, then: str
) -> None:
    """Whatever order they had before."""
    for tags in (first, second):
        merged = await applied(gadgets, "a", tags=[*tags], ports=[{"number": ord(tag)} for tag in tags])
    assert "".join(merged.get("tags", [])) == then
    assert "".join(chr(port["number"]) for port in merged.get("ports", [])) == then


@pytest.mark.parametrize(
    ("of_a", "of_b", "both"),
    [
        ("ab", "cb", "acb"),
        ("abc", "cxa", "bcxa"),
        ("abcd", "xcbd", "axcbd"),
        ("ab", "xy", "abxy"),
    ],
)
async def test_items_of_another_manager_keep_their_place(
    gadgets: httpx2.AsyncClient, of_a: str, of_b: str, both: str
) -> None:
    """Between the items that both have in the same order."""
    await applied(gadgets, "a", tags=[*of_a])
    merged = await applied(gadgets, "b", tags=[*of_b])
    assert "".join(merged["tags"]) == both


async def test_a_plain_list_is_one_value(gadgets: httpx2.AsyncClient) -> None:
    """Two managers cannot share it, unless they want the same."""
    await applied(gadgets, "a", steps=["x"])
    assert await conflicts(gadgets, "b", steps=["x", "y"]) == [".spec.steps"]
    assert await applied(gadgets, "b", steps=["x"]) == {"steps": ["x"]}


async def test_a_map_merges_unless_it_is_atomic(gadgets: httpx2.AsyncClient) -> None:
    """Entries of a granular one belong to their managers."""
    await applied(gadgets, "a", labels={"x": "1"}, selector={"x": "1"})
    merged = await applied(gadgets, "b", labels={"y": "2"})
    assert merged["labels"] == {"x": "1", "y": "2"}
    assert await conflicts(gadgets, "b", selector={"y": "2"}) == [".spec.selector"]


async def test_what_the_schema_does_not_describe_merges_field_by_field(gadgets: httpx2.AsyncClient) -> None:
    """Maps inside are granular, lists are one value."""
    await applied(gadgets, "a", anything={"x": {"deep": 1}, "list": [1]})
    merged = await applied(gadgets, "b", anything={"x": {"other": 2}})
    assert merged["anything"] == {"x": {"deep": 1, "other": 2}, "list": [1]}
    assert await conflicts(gadgets, "b", anything={"list": [2]}) == [".spec.anything.list"]


async def test_an_integer_or_a_string_is_one_value(gadgets: httpx2.AsyncClient) -> None:
    """3 and "3" differ."""
    await applied(gadgets, "a", size=3)
    assert await conflicts(gadgets, "b", size="3") == [".spec.size"]
    assert (await apply(gadgets, "a", size=[3])).status_code == 422


async def test_a_repeated_member_is_refused(gadgets: httpx2.AsyncClient) -> None:
    """Which of the two would a manager own?"""
    for spec in ({"tags": ["x", "x"]}, {"ports": [{"number": 80}, {"number": 80, "protocol": "TCP"}]}):
        assert (await apply(gadgets, "a", **spec)).status_code == 422


async def test_an_atomic_map_goes_when_nobody_applies_it(gadgets: httpx2.AsyncClient) -> None:
    """As a whole, as it came."""
    await apply(gadgets, "m", selector={"a": "1", "b": "2"}, labels={"k": "v"})
    left = await apply(gadgets, "m", labels={"k": "v"})
    assert left.json()["spec"] == {"labels": {"k": "v"}}


async def test_an_item_goes_with_what_others_changed_in_it(gadgets: httpx2.AsyncClient) -> None:
    """Who changed a field of an item does not have the item, and has nothing once it is gone."""
    await apply(gadgets, "m", ports=[{"number": 1, "name": "a"}, {"number": 2}])
    changed = {"spec": {"ports": [{"number": 1, "name": "b"}, {"number": 2}]}}
    merge = {"content-type": "application/merge-patch+json"}
    await gadgets.patch(GADGET, json=changed, params={"fieldManager": "hand"}, headers=merge)
    left = (await apply(gadgets, "m", ports=[{"number": 2}])).json()
    assert left["spec"]["ports"] == [{"number": 2, "protocol": "TCP"}]
    assert [entry["manager"] for entry in left["metadata"]["managedFields"]] == ["m"]
