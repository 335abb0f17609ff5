"""Stories about the bounds of each field of Headgate's kinds, from the field tables of tests/api/fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from stories import Request, Story, variables

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "api" / "fields" / "driver"))

import field_cases
import field_tables
from field_cases import Case
from field_tables import Table

AT_MOST = 60
"""Requests of each kind: sorts of wrong values are compared, not every field that has them."""
LONGEST = 200
"""Characters of a value that is named in a request's name."""


def load() -> list[Story]:
    """One story for each table: objects with a value beyond a bound, as a dry run."""
    return [_story(table) for table in field_tables.load_all()]


def _story(table: Table) -> Story:
    names = variables({"plural": _plural(table), "example": table.examples[0]})
    requests = tuple(_request(case, names["collection"]) for case in _chosen(table))
    return Story(f"bounds: {table.name}", requests, names, tuple(_needs(table)))


def _plural(table: Table) -> str:
    from headgate.api import custom_definitions

    plurals = {
        each["spec"]["names"]["kind"]: each["spec"]["names"]["plural"] for each in custom_definitions()
    }
    return plurals[table.kind]


def _needs(table: Table) -> Iterator[Request]:
    for needed in table.needs:
        own = Table(needed["kind"], needed["apiVersion"], [needed], {}, [])
        collection = variables({"plural": _plural(own), "example": needed})["collection"]
        yield Request("needed", "POST", collection, {"Content-Type": "application/json"}, json.dumps(needed))


def _chosen(table: Table) -> list[Case]:
    """A case of each sort of error for each depth and type, of the spec."""
    sorts: dict[object, Case] = {}
    for case in field_cases.cases(table):
        field = table.fields[case.path]
        if case.refused_at is not None and not case.beyond_schema and case.path.startswith("spec"):
            depth = case.path.count(".") + case.path.count("[]")
            sorts.setdefault((case.says.partition(":")[0], field["type"], depth), case)
    return list(sorts.values())[:AT_MOST]


def _request(case: Case, collection: str) -> Request:
    manifest = case.manifest | {"metadata": {"name": "changed"}}
    path = f"{collection}?dryRun=All&fieldValidation=Strict"
    name = f"{case.path} {case.says}"[:LONGEST]
    return Request(name, "POST", path, {"Content-Type": "application/json"}, json.dumps(manifest))
