"""A keyword that is misspelt in the schema of a definition is an unknown field, as anywhere else."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

from headgate import api
from headgate.apiserver import definitions

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {
    "type": "object",
    "requird": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "requird": {"type": "string", "maxLenght": 3},
                "list": {"type": "array", "items": {"type": "string", "patern": "a"}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "enm": ["a"]}},
                "any": {
                    "type": "string",
                    "anyOf": [{"minLength": 1}, {"minLenght": 1}],
                    "x-kubernetes-validations": [{"rule": "self != 'a'", "mesage": "not a"}],
                    "externalDocs": {"uri": "x"},
                    "default": {"anything": 1},
                },
            },
        }
    },
}
AT = "spec.versions[0].schema.openAPIV3Schema"
UNKNOWN = [
    f"{AT}.properties.spec.properties.any.anyOf[1].minLenght",
    f"{AT}.properties.spec.properties.any.externalDocs.uri",
    f"{AT}.properties.spec.properties.any.x-kubernetes-validations[0].mesage",
    f"{AT}.properties.spec.properties.list.items.patern",
    f"{AT}.properties.spec.properties.map.additionalProperties.enm",
    f"{AT}.properties.spec.properties.requird.maxLenght",
    f"{AT}.requird",
]


def definition(schema: Any) -> dict[str, Any]:
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": copy.deepcopy(schema)}}]}}


def test_each_is_found_however_deep() -> None:
    """Names of fields and defaults may be anything."""
    obj = definition(SCHEMA)
    assert sorted(definitions.prune_schemas(obj)) == UNKNOWN
    assert definitions.prune_schemas(obj) == []
    left = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert left["requird"] == {"type": "string"}
    assert left["any"]["default"] == {"anything": 1}


@pytest.mark.parametrize("nonsense", [None, 1, "x", [], {"properties": 1, "items": "x", "allOf": {"a": 1}}])
def test_nonsense_is_left_to_validation(nonsense: Any) -> None:
    """Which says what is wrong with it."""
    assert definitions.prune_schemas(definition(nonsense)) == []
    assert definitions.prune_schemas({"spec": nonsense}) == []


def test_our_own_definitions_lose_nothing() -> None:
    """Every keyword that they have is one of Kubernetes."""
    for made in api.custom_definitions():
        assert definitions.prune_schemas(copy.deepcopy(made)) == []


async def test_they_are_refused_or_dropped_as_asked(
    client: httpx2.AsyncClient, widget_definition: Any
) -> None:
    """As `fieldValidation` says."""
    made = copy.deepcopy(widget_definition)
    made["metadata"]["name"] = "gadgets.test.example"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["requird"] = ["spec"]
    refused = await client.post(DEFINITIONS, json=made, params={"fieldValidation": "Strict"})
    assert refused.status_code == 400
    assert refused.json()["message"].endswith(f'strict decoding error: unknown field "{AT}.requird"')
    stored = await client.post(DEFINITIONS, json=made)
    assert stored.headers["warning"] == f'299 - "unknown field \\"{AT}.requird\\""'
    assert "requird" not in stored.text
