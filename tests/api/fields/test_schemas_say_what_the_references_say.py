"""The generated schemas against tables that were written by hand from the API references."""

import functools
from collections.abc import Iterator
from typing import Any

import field_tables
import pytest

from headgate import api

TABLES = field_tables.load_all()
ROWS = [pytest.param(table, path, id=f"{table.kind}:{path}") for table in TABLES for path in table.fields]
DEFINITIONS = api.custom_definitions()


@pytest.mark.parametrize(("table", "path"), ROWS)
def test_a_field_has_its_type_default_and_limits(table: field_tables.Table, path: str) -> None:
    """Exactly those of the reference: none is missing, none is added."""
    node, is_required = fields_of(table)[path]
    wanted = table.fields[path]
    limits = {keyword: wanted[keyword] for keyword in field_tables.LIMITS if keyword in wanted}
    found = {keyword: node[keyword] for keyword in field_tables.LIMITS if keyword in node}
    if "valid" in wanted and "pattern" not in wanted:
        found.pop("pattern", None)  # how a duration is described is ours; which ones are valid is not
    assert found == limits
    if wanted["type"] == "int-or-string":
        assert node.get("x-kubernetes-int-or-string")
    elif wanted["type"] == "json":
        assert node.get("x-kubernetes-preserve-unknown-fields")
    else:
        assert node["type"] == ("object" if wanted["type"] == "map" else wanted["type"])
    assert ("additionalProperties" in node) == (wanted["type"] == "map")
    assert is_required == bool(wanted.get("required") and "refused_at" not in wanted)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_table_has_every_field_of_the_schema_and_no_other(table: field_tables.Table) -> None:
    """A field that is added to a type needs a row, and a row needs a field."""
    in_schema = set(fields_of(table))
    assert sorted(in_schema - table.fields.keys()) == [], "in the schema, but not in the table"
    assert sorted(table.fields.keys() - in_schema) == [], "in the table, but not in the schema"


def test_every_kind_has_a_table() -> None:
    """And every table a kind."""
    kinds = {
        (d["spec"]["names"]["kind"], f"{d['spec']['group']}/{d['spec']['versions'][0]['name']}")
        for d in DEFINITIONS
    }
    assert kinds == {(table.kind, table.api_version) for table in TABLES}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_field_is_described(table: field_tables.Table) -> None:
    """kubectl explain has a sentence for each; items and values may leave it to their list or map."""
    found = fields_of(table).items()
    assert [p for p, (node, _) in found if not p.endswith(("[]", ".*")) and not node.get("description")] == []


def fields_of(table: field_tables.Table) -> dict[str, tuple[dict[str, Any], bool]]:
    """Path to schema and whether it is required."""
    return _fields_of_kind(table.kind, table.api_version)


@functools.cache
def _fields_of_kind(kind: str, api_version: str) -> dict[str, tuple[dict[str, Any], bool]]:
    for definition in DEFINITIONS:
        spec = definition["spec"]
        version = spec["versions"][0]
        if (spec["names"]["kind"], f"{spec['group']}/{version['name']}") == (kind, api_version):
            return {
                path: (node, required)
                for path, node, required in _fields(version["schema"]["openAPIV3Schema"], "")
                if path not in ("apiVersion", "kind", "metadata")
            }
    raise AssertionError(f"no such kind: {kind} in {api_version}")


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    children = [
        (f"{path}.{name}" if path else name, node, name in schema.get("required", ()))
        for name, node in schema.get("properties", {}).items()
    ]
    if isinstance(schema.get("items"), dict):
        children.append((f"{path}[]", schema["items"], False))
    if isinstance(schema.get("additionalProperties"), dict):
        children.append((f"{path}.*", schema["additionalProperties"], False))
    for child, node, required in children:
        yield child, node, required
        yield from _fields(node, child)
