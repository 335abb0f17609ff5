"""Server-side apply: every manager owns what it wants, and nobody's field changes unasked."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.apiserver import fieldset, fieldtree

Apply = Any


@pytest.fixture
def apply(client: httpx2.AsyncClient, widgets: str) -> Apply:
    async def send(
        manager: str, spec: dict[str, Any], *, force: bool = False, **metadata: Any
    ) -> httpx2.Response:
        obj = {
            "apiVersion": "test.example/v1",
            "kind": "Widget",
            "metadata": {"name": "w"} | metadata,
            "spec": spec,
        }
        return await client.patch(
            f"{widgets}/w",
            json=obj,
            params={"fieldManager": manager, "force": str(force).lower()},
            headers={"content-type": "application/apply-patch+yaml"},
        )

    return send


def entry(obj: Any, manager: str) -> Any:
    return next(e for e in obj["metadata"]["managedFields"] if e["manager"] == manager)


async def test_apply_creates_and_notes_the_owner(apply: Apply) -> None:
    """The first apply creates the object; its manager owns exactly the fields that it sent."""
    answer = await apply("a", {"color": "red", "parts": [{"name": "x", "length": 1}]}, labels={"l": "1"})
    assert answer.status_code == 201
    assert answer.json()["spec"]["size"] == 1
    assert [e["manager"] for e in answer.json()["metadata"]["managedFields"]] == ["a"]
    assert entry(answer.json(), "a")["operation"] == "Apply"
    assert entry(answer.json(), "a")["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:l": {}}},
        "f:spec": {"f:color": {}, "f:parts": {'k:{"name":"x"}': {".": {}, "f:length": {}, "f:name": {}}}},
    }


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({}, "Specified patch version: , expected: v1"),
        ({"apiVersion": "v2", "kind": "ConfigMap"}, "Specified patch version: v2, expected: v1"),
        ({"apiVersion": "v1"}, "Object 'Kind' is missing"),
        ({"apiVersion": "v1", "kind": "Secret"}, "does not match the expected kind (ConfigMap)"),
    ],
)
async def test_an_apply_says_what_it_is_of(
    client: httpx2.AsyncClient, config_maps: str, identity: Any, words: str
) -> None:
    """Without apiVersion and kind, or with others than the path has, nothing is applied."""
    refused = await client.patch(
        f"{config_maps}/c",
        json={**identity, "metadata": {"name": "c"}},
        params={"fieldManager": "a"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert refused.status_code == 400
    assert words in refused.json()["message"]
    assert (await client.get(f"{config_maps}/c")).status_code == 404


async def test_an_apply_that_wants_no_field_creates(client: httpx2.AsyncClient) -> None:
    """A Namespace is often no more than its name; nobody then owns anything of it."""
    answer = await client.patch(
        "/api/v1/namespaces/n",
        json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
        params={"fieldManager": "a"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert answer.status_code == 201
    assert "managedFields" not in answer.json()["metadata"]


async def test_nobody_owns_what_the_schema_does_not_have(apply: Apply) -> None:
    """An apply of an unknown field is refused, of a new object and of one that is there."""
    for color in ("red", "blue"):
        refused = await apply("a", {"color": color, "shape": 1})
        assert refused.status_code == 400
        assert refused.json()["message"].endswith("): .spec.shape: field not declared in schema")
        answer = await apply("a", {"color": color})
        assert entry(answer.json(), "a")["fieldsV1"] == {"f:spec": {"f:color": {}}}


async def test_the_same_apply_again_changes_nothing(apply: Apply) -> None:
    """Applying twice keeps the resource version."""
    first = (await apply("a", {"color": "red"})).json()
    second = await apply("a", {"color": "red"})
    assert second.status_code == 200
    assert second.json()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_another_managers_field_is_a_conflict_unless_forced(apply: Apply) -> None:
    """Another value for an owned field is 409 with a cause for it; force takes the field over."""
    await apply("a", {"color": "red", "size": 1})
    refused = await apply("b", {"color": "red", "size": 2})
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert refused.json()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.size"}
    ]
    assert refused.json()["message"] == 'Apply failed with 1 conflict: conflict with "a": .spec.size'
    taken = (await apply("b", {"color": "red", "size": 2}, force=True)).json()
    assert taken["spec"]["size"] == 2
    assert entry(taken, "a")["fieldsV1"] == {"f:spec": {"f:color": {}}}
    assert entry(taken, "b")["fieldsV1"] == {"f:spec": {"f:color": {}, "f:size": {}}}


async def test_the_same_value_is_owned_together(apply: Apply) -> None:
    """Two managers may want the same; the field goes when the last of them no longer does."""
    await apply("a", {"color": "red", "tags": ["t"]})
    await apply("b", {"color": "red", "tags": ["t"]})
    assert "tags" in (await apply("a", {"color": "red"})).json()["spec"]
    assert "tags" not in (await apply("b", {"color": "red"})).json()["spec"]


async def test_what_is_no_longer_applied_goes(apply: Apply) -> None:
    """A keyed item and a label that a manager leaves out are removed, those of others stay."""
    await apply("a", {"color": "red", "parts": [{"name": "x"}, {"name": "y"}]}, labels={"l": "1", "m": "2"})
    await apply("b", {"color": "red", "parts": [{"name": "z", "length": 3}]})
    answer = (await apply("a", {"color": "red", "parts": [{"name": "y"}]}, labels={"m": "2"})).json()
    assert answer["spec"]["parts"] == [{"name": "y"}, {"name": "z", "length": 3}]
    assert answer["metadata"]["labels"] == {"m": "2"}


async def test_a_plain_update_takes_what_it_changes(
    client: httpx2.AsyncClient, apply: Apply, widgets: str
) -> None:
    """After a merge patch of a field its applier meets a conflict there, and nowhere else."""
    await apply("a", {"color": "red", "size": 1})
    headers = {"content-type": "application/merge-patch+json"}
    patched = await client.patch(
        f"{widgets}/w", json={"spec": {"size": 9}}, params={"fieldManager": "hand"}, headers=headers
    )
    assert entry(patched.json(), "hand")["fieldsV1"] == {"f:spec": {"f:size": {}}}
    refused = await apply("a", {"color": "blue", "size": 1})
    assert refused.json()["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "hand" using test.example/v1',
            "field": ".spec.size",
        }
    ]


async def test_the_status_has_owners_of_its_own(
    client: httpx2.AsyncClient, apply: Apply, widgets: str, widget: Any
) -> None:
    """Applying to /status changes and owns nothing but the status."""
    await apply("a", {"color": "red"})
    obj = widget(color="blue") | {"status": {"phase": "up"}}
    answer = await client.patch(
        f"{widgets}/w/status",
        json=obj,
        params={"fieldManager": "c"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert (answer.json()["spec"]["color"], answer.json()["status"]) == ("red", {"phase": "up"})
    assert entry(answer.json(), "c")["fieldsV1"] == {"f:status": {"f:phase": {}}}
    assert entry(answer.json(), "c")["subresource"] == "status"


async def test_apply_needs_a_manager(client: httpx2.AsyncClient, widget: Any, widgets: str) -> None:
    """Without fieldManager nobody could own what is applied."""
    answer = await client.patch(
        f"{widgets}/w", json=widget(), headers={"content-type": "application/apply-patch+yaml"}
    )
    assert answer.status_code == 422
    assert "fieldManager: Required value: is required for apply patch" in answer.json()["message"]


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The machine may be busy with other tests."""
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])


@UNHURRIED
@given(st.sets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12))
def test_a_set_of_fields_survives_its_encoding(paths: set[tuple[str, ...]]) -> None:
    """fieldsV1 says of every path whether it is a member, also where members are below members."""
    assert set(fieldset.decode(fieldset.encode(paths))) == paths


OBJECTS = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@UNHURRIED
@given(OBJECTS, OBJECTS)
def test_what_is_applied_is_there_afterwards(live: Any, applied: Any) -> None:
    """Every leaf that was applied has its value in the merged object, and live leaves beside it are kept."""
    merged = dict(fieldset.leaves(fieldset.merge(live, applied, {}), {}))
    wanted = {path: value for path, value in fieldset.leaves(applied, {}) if value != {}}
    assert wanted.items() <= merged.items()
    laid = [path for path, _ in fieldset.leaves(applied, {})]
    beside = {
        path: value
        for path, value in fieldset.leaves(live, {})
        if not any(path[: len(over)] == over or over[: len(path)] == path for over in laid)
    }
    assert beside.items() <= merged.items()


LISTS = {
    "properties": {
        "set": {"x-kubernetes-list-type": "set"},
        "map": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": {"properties": {"a": {"default": 0}}},
        },
        "one": {"x-kubernetes-map-type": "atomic"},
    }
}
ITEMS = st.lists(st.one_of(st.integers(0, 3), OBJECTS), max_size=3)
WITH_LISTS = st.dictionaries(st.sampled_from(["set", "map", "one", "any"]), st.one_of(ITEMS, OBJECTS))


@UNHURRIED
@given(WITH_LISTS)
def test_a_new_object_is_owned_leaf_by_leaf(obj: Any) -> None:
    """The tree of a whole value is what its fields make up, whatever merges as a set, by keys or as one."""
    fields = {path for path, _ in fieldset.leaves(obj, LISTS, composed=True) if path}
    whole = {".": {}} if obj else {}
    assert fieldtree.compiled(LISTS)(obj) == fieldset.encode(fields) | whole
