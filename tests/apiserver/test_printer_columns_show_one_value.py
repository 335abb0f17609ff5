"""The columns that a CustomResourceDefinition asks for, cell by cell."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from headgate import api
from headgate.apiserver import tables
from headgate.apiserver.jsonpath import MAX_VALUES
from headgate.apiserver.registry import Registry
from headgate.apiserver.tables import making

NOW = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)


def cells(columns: list[dict[str, str]], **obj: Any) -> list[Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": columns,
    }
    registry = Registry([])
    registry.register(
        {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"kind": "Thing", "plural": "things"},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )
    served = registry.find("example.com", "v1", "things")
    assert served
    thing = {"metadata": {"name": "x"}, **obj}
    row = tables.table(served, [thing], metadata={}, include="None", now=NOW)["rows"][0]
    shown: list[Any] = row["cells"][1:]
    return shown


def cell(type_: str, path: str, **obj: Any) -> Any:
    return cells([{"name": "X", "type": type_, "jsonPath": path}], **obj)[0]


class Counted(list[Any]):
    """A list that counts how many of its items were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.looked_at += 1
            yield item


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("string", "a", "a"),
        ("string", 3, "3"),
        ("string", True, "true"),
        ("string", ["a", "b"], '["a","b"]'),
        ("string", {"a": "b"}, '{"a":"b"}'),
        ("integer", 3, 3),
        ("integer", 3.7, 3),
        ("integer", "3", None),
        ("number", 3, 3.0),
        ("boolean", False, False),
        ("boolean", "false", None),
        ("date", "2026-01-02T11:00:00Z", "60m"),
        ("date", "yesterday", "<unknown>"),
        ("string", None, None),
        ("date", None, None),
    ],
)
def test_a_cell_is_of_the_type_of_its_column(type_: str, value: Any, expected: Any) -> None:
    """A value of another type is left blank; text takes anything."""
    assert cell(type_, ".spec.value", spec={"value": value}) == expected


def test_a_path_that_finds_several_values_shows_the_first() -> None:
    """As in Kubernetes, whose columns have one value."""
    ports = [{"number": 8000}, {"number": 8001}]
    assert cell("string", ".spec.ports[*].number", spec={"ports": ports}) == "8000"


def test_a_path_that_finds_nothing_shows_nothing() -> None:
    """Blank, whatever the type."""
    assert cell("date", ".status.since") is None


POOL = {
    "metadata": {"name": "pool", "creationTimestamp": "2026-01-02T11:59:00Z"},
    "spec": {"targetPorts": [{"number": 8000}], "selector": {"matchLabels": {"app": "vllm"}}},
    "status": {
        "parents": [
            {"parentRef": {"name": "gateway"}, "conditions": [{"type": "Accepted", "status": "True"}]},
        ]
    },
}


def test_columns_reach_into_conditions() -> None:
    """The stable InferencePool shows whether its first parent accepted it."""
    registry = Registry([])
    for definition in api.custom_definitions():
        registry.register(definition)
    served = registry.find("inference.networking.k8s.io", "v1", "inferencepools")
    assert served
    shown = tables.table(served, [POOL], metadata={}, include="None", now=NOW)
    names = [column["name"] for column in shown["columnDefinitions"]]
    cells = dict(zip(names, shown["rows"][0]["cells"], strict=True))
    assert cells == {
        "Name": "pool",
        "Port": 8000,
        "Picker": None,
        "Selector": '{"app":"vllm"}',
        "Accepted": "True",
        "Age": "60s",
    }


@pytest.mark.parametrize(
    ("path", "shown"), [(".spec.l[*]", "0"), (".spec.l[*].x", None), (".spec.l[?(@.x==1)]", None)]
)
def test_a_row_looks_at_few_values(path: str, shown: str | None) -> None:
    """However many columns and values there are; what a column did not get to is blank."""
    values = Counted(range(50_000))
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": path} for n in range(64)]
    assert cells(columns, spec={"l": values}) == [shown] * 64
    assert values.looked_at <= MAX_VALUES


def test_a_row_shows_a_bounded_text() -> None:
    """Large values are cut, and columns after them are blank; numbers still show."""
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": ".spec"} for n in range(64)]
    columns.append({"name": "n", "type": "integer", "jsonPath": ".spec.n"})
    shown = cells(columns, spec={"n": 7, "text": "x" * 900_000})
    assert len(shown[0]) == making.MAX_ROW_TEXT
    assert shown[1:] == [None] * 63 + [7]
