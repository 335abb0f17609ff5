"""Reads the hand-written field tables, and spells out the types that several fields have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TABLES = Path(__file__).parents[1] / "tables"

LIMITS = (
    *("minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "default"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """What a reference says of one kind."""

    kind: str
    api_version: str
    examples: list[dict[str, Any]]
    """Valid objects that together have every field."""
    fields: dict[str, Row]
    """Path to type, limits and default; types are those of OpenAPI, and map, json, int-or-string."""
    needs: list[dict[str, Any]]
    """Objects that must be there before."""

    @property
    def name(self) -> str:
        return f"{self.kind}.{self.api_version}"


def load_all() -> list[Table]:
    """Every table, in the order of the file names."""
    shared = _read(TABLES / "shared.yaml")
    return [_table(_read(file), shared) for file in sorted((TABLES / "kinds").glob("*.yaml"))]


def _table(content: dict[str, Any], shared: dict[str, dict[str, Row]]) -> Table:
    head = {"apiVersion": content["apiVersion"], "kind": content["kind"]}
    examples = [
        head | {"metadata": {"name": f"example-{number}"}} | example
        for number, example in enumerate(content["examples"])
    ]
    fields = dict(
        spelled for path, row in content["fields"].items() for spelled in _spelled_out(path, row, shared)
    )
    return Table(content["kind"], content["apiVersion"], examples, fields, content.get("needs", []))


def _spelled_out(path: str, row: Row, shared: dict[str, dict[str, Row]]) -> Iterator[tuple[str, Row]]:
    if row["type"] not in shared:
        yield path, row
        return
    for step, inner in shared[row["type"]].items():
        yield from _spelled_out(path + step, inner if step else row | inner, shared)


def _read(file: Path) -> Any:
    """The content, with a copy of its own wherever the file has an alias, since cases change one place."""
    return json.loads(json.dumps(yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)))
