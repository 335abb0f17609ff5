"""Create Tables: columns and rows, from printer columns or from the rows of a built-in kind."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from headgate.apiserver.jsonpath import Budget
from headgate.apiserver.registry import Column, Served
from headgate.apiserver.tables import kinds
from headgate.apiserver.tables.kinds import Row
from headgate.apiserver.tables.values import age, since

Object = dict[str, Any]
IncludeObject = Literal["None", "Metadata", "Object"]

MAX_ROW_TEXT = 16_384
"""Characters that the printer columns of one row may show together."""
_TIMESTAMP = 64
"""Characters of a date that are parsed."""
_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique among its kind in a namespace.",
}


def table(
    served: Served,
    objects: Iterable[Object],
    *,
    metadata: Object,
    include: IncludeObject,
    now: datetime.datetime,
    with_columns: bool = True,
) -> Object:
    """A Table of objects; `metadata` is the list's. Events after the first omit the columns."""
    builtin = kinds.ROWS.get(served.resource) if not served.custom else None
    rows = []
    for obj in objects:
        cells = builtin.cells(obj, now) if builtin else _cells(served.columns, obj, now)
        name = obj["metadata"].get("name", "")
        named = [*cells, name] if builtin and builtin.is_named_last else [name, *cells]
        rows.append({"cells": named, "object": _row_object(obj, include)})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": _definitions(served, builtin) if with_columns else None,
        "rows": rows,
    }


def scale_table(scale: Object, *, include: IncludeObject, now: datetime.datetime) -> Object:
    """The Table of an autoscaling/v1 Scale, the same for all kinds that have one."""
    meta = scale["metadata"]
    cells = [meta["name"], scale["spec"].get("replicas", 0), scale["status"]["replicas"], age(scale, now)]
    columns = [
        {**_NAME, "format": "", "priority": 0},
        _definition("Desired", "integer", 0, description="Number of desired replicas"),
        _definition("Available", "integer", 0, description="Number of actual replicas"),
        _definition("Age", "string", 0),
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": meta["resourceVersion"]},
        "columnDefinitions": columns,
        "rows": [{"cells": cells, "object": _row_object(scale, include)}],
    }


def _definitions(served: Served, builtin: Row | None) -> list[Object]:
    if builtin:
        shown = [
            _definition(name, "integer" if name in builtin.integers else "string", priority)
            for name, priority in builtin.columns
        ]
        if builtin.is_named_last:
            return [*shown, {**_NAME, "priority": 1}]
    elif served.columns:
        shown = [_definition(c.name, c.type, c.priority, c.format, c.description) for c in served.columns]
    else:
        shown = [_definition("Age", "date", 0)]
    return [{**_NAME, "priority": 0}, *shown]


def _definition(name: str, type_: str, priority: int, format_: str = "", description: str = "") -> Object:
    return {
        "name": name,
        "type": type_,
        "format": format_,
        "description": description or name,
        "priority": priority,
    }


def _row_object(obj: Object, include: IncludeObject) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"},
    }


def _cells(columns: tuple[Column, ...], obj: Object, now: datetime.datetime) -> list[Any]:
    if not columns:
        return [age(obj, now)]
    budget, cells, room = Budget(), [], MAX_ROW_TEXT
    for column in columns:
        value = _cell(column, next(column.path.find(obj, budget), None), now, room)
        if isinstance(value, str):
            room -= len(value)
        cells.append(value)
    return cells


def _cell(column: Column, value: Any, now: datetime.datetime, room: int) -> Any:
    """The value, as text cut to `room` characters; None, shown blank by kubectl, if of another type."""
    if value is None:
        return None
    match column.type:
        case "string":
            return _text(value)[:room] if room else None
        case "date":
            return since(value[:_TIMESTAMP] if isinstance(value, str) else None, now)
        case "integer" if isinstance(value, int | float):
            return int(value)
        case "number" if isinstance(value, int | float):
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
