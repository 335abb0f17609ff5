"""Each default and each bound of each field, by what the real defaulting and validation do with objects."""

import copy
from typing import Any

import field_cases
import field_tables
import pytest

from headgate import api
from headgate.kubeschema import structural

TABLES = field_tables.load_all()
ROWS = [pytest.param(table, path, id=f"{table.kind}:{path}") for table in TABLES for path in table.fields]
SCHEMAS = {
    (d["spec"]["names"]["kind"], f"{d['spec']['group']}/{version['name']}"): version["schema"][
        "openAPIV3Schema"
    ]
    for d in api.custom_definitions()
    for version in d["spec"]["versions"]
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_examples_are_valid_and_lose_nothing(table: field_tables.Table) -> None:
    """The objects that the cases start from pass as they are."""
    for example in table.examples:
        assert served(table, example) == (example, [], [])


@pytest.mark.parametrize(("table", "path"), ROWS)
def test_a_value_passes_up_to_its_bounds_and_no_further(table: field_tables.Table, path: str) -> None:
    """Beyond a bound there is an error at exactly this field; a field that is absent gets its default."""
    for case in field_cases.cases_of(table, path):
        if case.beyond_schema:
            continue
        result, _, errors = served(table, case.manifest)
        assert errors == ([case.refused_at] if case.refused_at else []), str(case)
        if case.is_absent:
            holder = field_cases.reach(result, case.steps[:-1])
            assert holder.get(case.steps[-1]) == case.becomes, str(case)


def test_a_wrong_limit_would_be_noticed() -> None:
    """The driver itself: of a schema whose maximum is one too high, one case tells."""
    table = next(table for table in TABLES if table.kind == "ModelServer")
    schema = copy.deepcopy(SCHEMAS[table.kind, table.api_version])
    port = schema["properties"]["spec"]["properties"]["workloadPort"]["properties"]["port"]
    port["maximum"] += 1
    wrong = [
        case
        for case in field_cases.cases_of(table, "spec.workloadPort.port")
        if bool(structural.validate(schema, case.manifest)) != bool(case.refused_at)
    ]
    assert [case.says for case in wrong] == ["beyond its maximum: 65536"]


def served(
    table: field_tables.Table, manifest: dict[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """What becomes of an object: itself as it is then, what was pruned, and where its errors are."""
    schema = SCHEMAS[table.kind, table.api_version]
    stored = copy.deepcopy(manifest)
    removed = structural.prune(schema, stored)
    structural.default(schema, stored)
    errors = structural.validate(schema, stored)
    fields = {error.field for error in errors} - {structural.NO_FIELD}
    return stored, removed, sorted(fields)
