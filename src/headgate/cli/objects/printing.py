"""Format objects and Tables as text: kubectl's columns, YAML, JSON, names."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml
from rich.cells import cell_len

from headgate.cli.manifests.scalars import NotJson, resolve

Object = dict[str, Any]

_GAP = 3
_NARROWEST = 6


class Column(msgspec.Struct, frozen=True):
    name: str
    priority: int = 0


class Row(msgspec.Struct, frozen=True):
    cells: list[Any]
    object: Object | None = None

    @property
    def metadata(self) -> Object:
        found = (self.object or {}).get("metadata")
        return found if isinstance(found, dict) else {}


class TableMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Table(msgspec.Struct, frozen=True, rename="camel"):
    """meta/v1 Table, with the fields that are printed."""

    column_definitions: list[Column] | None = None
    rows: list[Row] | None = None
    metadata: TableMeta = TableMeta()


class Printer:
    """Formats the rows of one kind in columns; keeps the widths, so that a watch continues below a list."""

    def __init__(
        self, columns: list[Column], *, wide: bool, with_namespace: bool, with_labels: bool, prefix: str = ""
    ) -> None:
        self._shown = [index for index, column in enumerate(columns) if wide or column.priority == 0]
        self._with_namespace = with_namespace
        self._with_labels = with_labels
        self._prefix = prefix
        self._headings = self._line([column.name.upper() for column in columns], "NAMESPACE", "LABELS", "")
        self._widths = [0] * len(self._headings)

    def lines(self, rows: list[Row], *, with_headings: bool) -> list[str]:
        """Lines for these rows, without trailing blanks."""
        table = [self._headings] if with_headings else []
        for row in rows:
            meta = row.metadata
            labels = ",".join(f"{key}={value}" for key, value in sorted((meta.get("labels") or {}).items()))
            cells = [_text(cell) for cell in row.cells]
            table.append(self._line(cells, meta.get("namespace") or "", labels or "<none>", self._prefix))
        for line in table:
            self._widths = [
                max(width, cell_len(cell)) for width, cell in zip(self._widths, line, strict=True)
            ]
        return ["".join(self._padded(line)).rstrip() for line in table]

    def _line(self, cells: list[str], namespace: str, labels: str, prefix: str) -> list[str]:
        line = [cells[index] if index < len(cells) else "" for index in self._shown]
        if line and prefix:
            line[0] = f"{prefix}/{line[0]}"
        before = [namespace] if self._with_namespace else []
        return [*before, *line, *([labels] if self._with_labels else [])]

    def _padded(self, line: list[str]) -> list[str]:
        return [
            cell + " " * (max(width + _GAP, _NARROWEST) - cell_len(cell))
            for width, cell in zip(self._widths, line, strict=True)
        ]


def _text(cell: Any) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case str():
            return visible(cell)
        case _:
            return visible(
                json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else str(cell)
            )


def visible(text: str) -> str:
    """On one line, without characters that control a terminal: objects may contain anything."""
    return "".join(each if each.isprintable() else " " for each in text)


def escaped(line: str) -> str:
    """Escape control characters, which names of clients and objects may contain."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in line)


class _Dumper(yaml.CSafeDumper):
    """Writes multi-line strings as blocks and repeats shared parts in full."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text_node(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Quote strings that Kubernetes' YAML parser would read as another type, such as y or 1e3."""
    style = "|" if "\n" in text else None
    try:
        style = style if isinstance(resolve(text), str) else "'"
    except NotJson:
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def as_yaml(obj: Any, *, sort_keys: bool = True) -> str:
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=4096)


def as_json(obj: Any) -> str:
    return json.dumps(obj, indent=4, ensure_ascii=False) + "\n"


def together(objects: list[Object]) -> Object:
    """Several objects as one List that `headgate apply` can read."""
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}


def without_managed_fields(obj: Object) -> Object:
    """Remove managedFields, which are long and only useful to machines."""
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": meta}
