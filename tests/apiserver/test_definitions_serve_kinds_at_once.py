"""A kind comes, changes and is described by its CustomResourceDefinition alone."""

from __future__ import annotations

import copy
import gc
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate import api
from headgate.apiserver import Config
from headgate.apiserver.handlers import documents
from headgate.apiserver.parts import Parts
from headgate.apiserver.registry import Registry, Served

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def gadget(definition: Any) -> Any:
    made = copy.deepcopy(definition)
    made["metadata"]["name"] = "gadgets.test.example"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    return made


async def test_a_new_kind_is_served_when_its_definition_is_created(
    client: httpx2.AsyncClient, widget: Any, widget_definition: Any
) -> None:
    """The create answers with Established, and the next request may use the kind."""
    answer = await client.post(DEFINITIONS, json=gadget(widget_definition))
    assert answer.status_code == 201
    conditions = {c["type"]: c["status"] for c in answer.json()["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    made = await client.post(
        "/apis/test.example/v1/namespaces/default/gadgets", json=widget() | {"kind": "Gadget"}
    )
    assert made.status_code == 201


async def test_a_change_of_metadata_alone_does_not_register_the_kind_again(
    client: httpx2.AsyncClient, parts: Parts
) -> None:
    """A large schema is decoded and compiled once for each change of its spec, not for each label."""
    path = f"{DEFINITIONS}/widgets.test.example"
    served, generation = parts.registry.find("test.example", "v1", "widgets"), parts.registry.generation
    merge = {"content-type": "application/merge-patch+json"}
    label = {"metadata": {"labels": {"a": "b"}}}
    assert (await client.patch(path, json=label, headers=merge)).json()["metadata"]["labels"] == {"a": "b"}
    assert parts.registry.find("test.example", "v1", "widgets") is served
    assert parts.registry.generation == generation
    names = {"spec": {"names": {"shortNames": ["wdg"]}}}
    assert (await client.patch(path, json=names, headers=merge)).status_code == 200
    changed = parts.registry.find("test.example", "v1", "widgets")
    assert changed
    assert changed.short_names == ("wdg",)


async def test_garbage_is_not_collected_again_and_again_while_a_large_definition_is_registered(
    client: httpx2.AsyncClient, parts: Parts, widget_definition: Any
) -> None:
    """Decoding it makes thousands of objects, which began collections of up to 120 ms on the event loop."""
    wide = gadget(widget_definition)
    fields = {f"f{number}": {"type": "object", "properties": {}} for number in range(5000)}
    schema = wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["wide"] = {"type": "object", "properties": fields}
    during: list[bool] = []

    def note(phase: str, info: object) -> None:
        frame = sys._getframe()
        while frame.f_back and frame.f_code is not Parts._on_event.__code__:
            frame = frame.f_back
        during.append(phase == "start" and frame.f_code is Parts._on_event.__code__)

    gc.callbacks.append(note)
    try:
        assert (await client.post(DEFINITIONS, json=wide)).status_code == 201
    finally:
        gc.callbacks.remove(note)
        parts.large_writes.close()
    assert parts.registry.find("test.example", "v1", "gadgets")
    assert during
    assert during.count(True) <= 1  # when the pause ends


async def test_a_changed_schema_holds_at_once(
    client: httpx2.AsyncClient, widget: Any, widgets: str, widget_definition: Any
) -> None:
    """After an update of the definition new rules apply to new writes."""
    stored = (await client.get(f"{DEFINITIONS}/widgets.test.example")).json()
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["color"]["enum"].append("green")
    assert (await client.put(f"{DEFINITIONS}/widgets.test.example", json=stored)).status_code == 200
    assert (await client.post(widgets, json=widget(color="green"))).status_code == 201


async def test_kinds_survive_a_restart(tmp_path: Path, widget_definition: Any) -> None:
    """Stored definitions are served again by the next start, which does not rewrite what has not changed."""
    first = Parts(Config(tmp_path, definitions=[widget_definition]))
    first.store.close()
    second = Parts(Config(tmp_path, definitions=[widget_definition]))
    assert second.registry.find("test.example", "v1", "widgets")
    assert second.store.revision == first.store.revision
    second.store.close()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"name": "other.test.example"}}, "metadata.name"),
        ({"group": "apps"}, "spec.group"),
        ({"storage": False}, "spec.versions"),
        ({"jsonPath": "spec["}, "spec.versions[0].additionalPrinterColumns[0].jsonPath"),
        ({"schema": {"type": "string"}}, "spec.versions[0].schema.openAPIV3Schema.type"),
    ],
)
async def test_a_definition_that_cannot_be_served_is_refused(
    client: httpx2.AsyncClient, widget_definition: Any, change: Any, field: str
) -> None:
    """The refusal names the field that is wrong."""
    made = gadget(widget_definition)
    made |= {key: value for key, value in change.items() if key == "metadata"}
    version = made["spec"]["versions"][0]
    if "group" in change:
        made["spec"]["group"] = change["group"]
    if "storage" in change:
        version["storage"] = False
    if "jsonPath" in change:
        version["additionalPrinterColumns"][0]["jsonPath"] = change["jsonPath"]
    if "schema" in change:
        version["schema"]["openAPIV3Schema"] = change["schema"]
    answer = await client.post(DEFINITIONS, json=made)
    assert answer.status_code == 422
    assert field in [cause["field"] for cause in answer.json()["details"]["causes"]]


PLACES = (
    "spec",
    "spec.group",
    "spec.scope",
    "spec.names",
    "spec.names.plural",
    "spec.names.kind",
    "spec.versions",
    "spec.versions.0.name",
    "spec.versions.0.served",
    "spec.versions.0.storage",
    "spec.versions.0.schema",
    "spec.versions.0.schema.openAPIV3Schema",
    "spec.versions.0.subresources.scale.specReplicasPath",
    "spec.versions.0.additionalPrinterColumns.0.jsonPath",
)


async def test_a_malformed_definition_never_breaks_the_server(
    client: httpx2.AsyncClient, widget_definition: Any
) -> None:
    """Whatever stands where, the definition is taken or refused, and discovery goes on."""
    for number, (place, value) in enumerate(itertools.product(PLACES, (None, 7, [], {}, "x y"))):
        made = gadget(widget_definition)
        made["metadata"]["name"] = f"gadgets{number}.test.example"
        made["spec"]["names"] = {"kind": f"Gadget{number}", "plural": f"gadgets{number}"}
        *parents, last = place.split(".")
        inner = made
        for name in parents:
            inner = inner[int(name) if isinstance(inner, list) else name]
        inner[last] = value
        answer = await client.post(DEFINITIONS, json=made)
        assert answer.status_code in (201, 400, 422), (place, value, answer.text)
    assert (await client.get("/apis/test.example/v1")).status_code == 200
    assert (await client.get("/openapi/v3")).status_code == 200


async def test_scope_and_kind_of_a_definition_stay(
    client: httpx2.AsyncClient, widget_definition: Any
) -> None:
    """Objects are stored by them, so they cannot change."""
    for body in ({"spec": {"scope": "Cluster"}}, {"spec": {"names": {"kind": "Other"}}}):
        headers = {"content-type": "application/merge-patch+json"}
        answer = await client.patch(f"{DEFINITIONS}/widgets.test.example", json=body, headers=headers)
        assert (answer.status_code, "field is immutable" in answer.json()["message"]) == (422, True)


async def test_two_versions_show_one_object(
    client: httpx2.AsyncClient, widget: Any, widget_definition: Any
) -> None:
    """An object that was written in one version is read in the other, under its name."""
    made = gadget(widget_definition)
    older = copy.deepcopy(made["spec"]["versions"][0]) | {"name": "v1beta1", "storage": False}
    made["spec"]["versions"].append(older)
    await client.post(DEFINITIONS, json=made)
    obj = widget() | {"kind": "Gadget", "apiVersion": "test.example/v1beta1"}
    written = await client.post("/apis/test.example/v1beta1/namespaces/default/gadgets", json=obj)
    assert written.json()["apiVersion"] == "test.example/v1beta1"
    listed = (await client.get("/apis/test.example/v1/namespaces/default/gadgets")).json()
    assert [item["apiVersion"] for item in listed["items"]] == ["test.example/v1"]
    group = (await client.get("/apis/test.example")).json()
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]


async def test_discovery_answers_in_the_newest_form_that_is_asked_for(client: httpx2.AsyncClient) -> None:
    """v2 and v2beta1 to those who name them, the legacy lists to all others."""

    async def kind(accept: str) -> tuple[str, str]:
        answer = await client.get("/apis", headers={"accept": accept})
        return answer.json()["kind"], answer.json()["apiVersion"]

    form = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
    both = f"{form.format('v2')},{form.format('v2beta1')},application/json"
    assert await kind(both) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    beta = f"{form.format('v2beta1')},application/json"
    assert await kind(beta) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1")
    assert await kind("application/json") == ("APIGroupList", "v1")
    resources = (await client.get("/apis/test.example/v1")).json()["resources"]
    assert [r["name"] for r in resources] == ["widgets", "widgets/status", "widgets/scale"]
    assert resources[2]["group"] == "autoscaling"


async def test_openapi_describes_every_group_version(client: httpx2.AsyncClient) -> None:
    """Each document is found by the index, resolves its references, and tells that fields are validated."""
    index = (await client.get("/openapi/v3")).json()["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/test.example/v1"} <= index.keys()
    for entry in index.values():
        document = (await client.get(entry["serverRelativeURL"])).json()
        schemas = document["components"]["schemas"]
        for reference in references(document):
            assert reference.removeprefix("#/components/schemas/") in schemas
        for path in document["paths"].values():
            if operation := path.get("patch"):
                assert "fieldValidation" in [p["name"] for p in operation["parameters"]]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for inner in value.values() for found in references(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in references(inner)]
    return []


def test_headgates_own_definitions_are_taken(tmp_path: Path) -> None:
    """Everything that api.custom_definitions() gives is served."""
    parts = Parts(Config(tmp_path))
    for definition in api.custom_definitions():
        spec = definition["spec"]
        version = spec["versions"][0]["name"]
        assert parts.registry.find(spec["group"], version, spec["names"]["plural"])
    parts.store.close()


async def test_a_definition_has_few_printer_columns(
    client: httpx2.AsyncClient, widget_definition: Any
) -> None:
    """Each is computed for each row of a Table: 64 are taken, more are refused with their number."""
    made = gadget(widget_definition)
    version = made["spec"]["versions"][0]
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": ".spec.l[*]"} for n in range(65)]
    version["additionalPrinterColumns"] = columns
    refused = await client.post(DEFINITIONS, json=made)
    assert refused.status_code == 422
    field = "spec.versions[0].additionalPrinterColumns"
    assert f"{field}: Too many: 65: must have at most 64 items" in refused.json()["message"]
    version["additionalPrinterColumns"] = columns[:64]
    assert (await client.post(DEFINITIONS, json=made)).status_code == 201


def of_group(number: int, definition: Any) -> Any:
    """The same kind in another group."""
    made = copy.deepcopy(definition)
    group = f"group-{number}.example"
    made["metadata"]["name"] = f"{made['spec']['names']['plural']}.{group}"
    made["spec"]["group"] = group
    return made


@pytest.mark.parametrize("path", ["/", "/apis", "/openapi/v3"])
async def test_hundreds_of_groups_are_told_of_in_one_look(
    client: httpx2.AsyncClient, parts: Parts, widget_definition: Any, path: str
) -> None:
    """Discovery looks through all kinds once, and not again for each of their groups."""
    looks = 0

    def looked(registry: Registry) -> Iterator[Served]:
        nonlocal looks
        looks += 1
        return iter(registry._served.values())

    for number in range(200):
        parts.registry.register(of_group(number, widget_definition))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Registry, "__iter__", looked)
        answer = await client.get(path)
    assert answer.status_code == 200
    assert b"group-199.example" in answer.content
    assert looks <= 4


async def test_others_have_their_turns_while_documents_are_made(
    client: httpx2.AsyncClient, parts: Parts, widget_definition: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of OpenAPI needs one for each version of each group."""
    monkeypatch.setattr(documents, "TURN_S", 0.0)
    for number in range(50):
        parts.registry.register(of_group(number, widget_definition))
    turns = 0
    resumed = parts.shared.turns.resume

    async def counted(user: str) -> None:
        nonlocal turns
        turns += 1
        await resumed(user)

    monkeypatch.setattr(parts.shared.turns, "resume", counted)
    paths = (await client.get("/openapi/v3")).json()["paths"]
    assert turns >= len(paths) > 50
