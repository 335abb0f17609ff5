"""The CRDs are valid CustomResourceDefinitions of every Kubernetes version that is still in use."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from headgate import api
from headgate.kubeschema import structural

VERSIONS = [version for version in utils.all_versions() if tuple(map(int, version.split(".")[:2])) >= (1, 28)]
CRDS = {crd["metadata"]["name"]: crd for crd in api.custom_definitions()}
PROTECTED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")


@pytest.fixture(autouse=True, scope="module")
def _read_once() -> Iterator[None]:
    """The package would read its files, megabytes of JSON, anew for each object."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", functools.cache(utils.schema_contents))
        yield


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_validate_loads_them_strictly(version: str) -> None:
    """Every key of every CRD is one that this version of Kubernetes has, with a value of its type."""
    for crd in CRDS.values():
        kubernetes_validate.validate(crd, version, strict=True)


def test_the_versions_include_those_that_people_run() -> None:
    """The package has schemas for 1.29 to 1.33 at least."""
    assert {"1.29", "1.30", "1.31", "1.32", "1.33"} <= {utils.major_minor(version) for version in VERSIONS}


@pytest.mark.parametrize("name", CRDS)
def test_names_are_as_an_api_server_demands(name: str) -> None:
    """The object is named plural.group, and a group of Kubernetes itself says how it was approved."""
    spec = CRDS[name]["spec"]
    assert name == f"{spec['names']['plural']}.{spec['group']}"
    assert spec["names"]["plural"] == spec["names"]["plural"].lower()
    assert spec["names"]["listKind"] == spec["names"]["kind"] + "List"
    assert [version["storage"] for version in spec["versions"]].count(True) == 1
    if PROTECTED.search(spec["group"]):
        assert CRDS[name]["metadata"].get("annotations", {}).get("api-approved.kubernetes.io")


@pytest.mark.parametrize("name", CRDS)
def test_schemas_are_structural(name: str) -> None:
    """What kube-apiserver asks of a structural schema, which no JSON schema of a CRD can say."""
    schema = schema_of(name)
    assert structural.check(schema) == []
    assert [fault for node, path in nodes(schema) for fault in faults(node, path)] == []


@pytest.mark.parametrize("name", CRDS)
def test_defaults_are_valid_where_they_stand(name: str) -> None:
    """A default that its own schema refuses, or that pruning would take apart, makes the CRD invalid."""
    for node, path in nodes(schema_of(name)):
        if "default" in node:
            holder = {"type": "object", "properties": {"field": node}}
            value = {"field": node["default"]}
            assert structural.prune(holder, value) == [], path
            assert structural.validate(holder, value) == [], path


@pytest.mark.parametrize("name", CRDS)
def test_printer_columns_show_fields_that_exist(name: str) -> None:
    """A column of a mistyped path would be empty for ever."""
    version = CRDS[name]["spec"]["versions"][0]
    for column in version["additionalPrinterColumns"]:
        node = version["schema"]["openAPIV3Schema"]
        for step in re.sub(r"\[[^]]*\]", ".[]", column["jsonPath"]).strip(".").split("."):
            if step == "metadata":
                break
            node = node["items"] if step == "[]" else node["properties"][step]
        else:
            assert column["type"] in ("string", "integer", "number", "boolean", "date")


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = CRDS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    yield schema, path
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(child := schema.get(keyword), dict):
            yield from nodes(child, f"{path}[]")


def faults(node: dict[str, Any], path: str) -> Iterator[str]:
    open_ended = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
    if "type" not in node and not open_ended:
        yield f"{path}: has no type"
    if "type" in node and node.get("x-kubernetes-int-or-string"):
        yield f"{path}: int-or-string has no type"
    if node.get("type") == "array" and "items" not in node:
        yield f"{path}: has no items"
    if "properties" in node and "additionalProperties" in node:
        yield f"{path}: properties and additionalProperties exclude each other"
    if node.get("uniqueItems"):
        yield f"{path}: uniqueItems is forbidden; use x-kubernetes-list-type: set"
    if node.get("x-kubernetes-list-type") == "map":
        item = node["items"]
        for key in node.get("x-kubernetes-list-map-keys", ["(none)"]):
            has_default = "default" in item["properties"].get(key, {})
            if key not in item.get("required", []) and not has_default:
                yield f"{path}: the list key {key} must be required or have a default"
