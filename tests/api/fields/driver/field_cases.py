"""Makes of each row of a table the objects that must pass and those that must be refused, and where.

Each is a valid example with one field changed: at its bound, beyond it, of another type, absent.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from field_tables import Table

Step = str | int

_WRONG: dict[str, Any] = {
    "string": 1,
    "integer": "one",
    "int-or-string": ["1"],
    "boolean": "yes",
    "object": "text",
    "map": "text",
    "array": "text",
    "json": None,
}


@dataclass(frozen=True)
class Case:
    """One object, and what a server must do with it."""

    path: str
    """The row of the table."""
    says: str
    manifest: dict[str, Any]
    refused_at: str | None = None
    """Where an error must be; None: the object must be taken."""
    steps: tuple[Step, ...] = ()
    """Where the field is in this object."""
    becomes: Any = None
    """The value that the field must then have; None: it must be absent. Asked only if `is_absent`."""
    is_absent: bool = False
    beyond_schema: bool = False
    """A rule across fields may reject it, or a server with rules beyond the schema completes it."""

    def __str__(self) -> str:
        return f"{self.path} {self.says}"


def cases(table: Table) -> Iterator[Case]:
    """Every case of a table."""
    for path in table.fields:
        yield from cases_of(table, path)


def cases_of(table: Table, path: str) -> Iterator[Case]:
    """The cases of one field."""
    beyond = tuple(table.fields[path].get("beyond_schema", ()))
    for case in _cases_of(table, path):
        yield dataclasses.replace(case, beyond_schema=True) if case.says.startswith(beyond) else case


def _cases_of(table: Table, path: str) -> Iterator[Case]:
    field = table.fields[path]
    example, steps = locate(table, path)
    where = spelled(steps)

    def having(says: str, value: Any, *, taken: bool, side: str = "") -> Case:
        changed = copy.deepcopy(example)
        parent = reach(changed, steps[:-1])
        parent[steps[-1]] = value
        if taken:
            parent.update(field.get("with", {}).get(side, {})) if isinstance(parent, dict) else None
        return Case(path, f"{says}: {value!r:.60}", changed, None if taken else where, steps)

    if (wrong := _WRONG[field["type"]]) is not None:
        yield having("of another type", wrong, taken=False)
    for value in field.get("valid", ()):
        yield having("valid", value, taken=True)
    for value in field.get("invalid", ()):
        yield having("invalid", value, taken=False)
    for value in field.get("enum", ()):
        yield having("allowed", value, taken=True)
    if "enum" in field:
        yield having("not allowed", "None of them", taken=False)
        yield having("not allowed", field["enum"][0].swapcase(), taken=False)
    for keyword in ("minimum", "maximum"):
        if keyword in field:
            beyond = field[keyword] + (1 if keyword == "maximum" else -1)
            yield having(f"at its {keyword}", field[keyword], taken=True, side=keyword)
            yield having(f"beyond its {keyword}", beyond, taken=False)
    for suffix, fill in (("Length", _text), ("Items", _items), ("Properties", _entries)):
        present = reach(example, steps)
        if (low := field.get(f"min{suffix}", 0)) > 0:
            yield having(f"below its min{suffix}", fill(field, present, low - 1), taken=False)
            if "pattern" not in field:
                yield having(f"at its min{suffix}", fill(field, present, low), taken=True)
        if (high := field.get(f"max{suffix}")) is not None:
            yield having(f"at its max{suffix}", fill(field, present, high), taken=True)
            yield having(f"above its max{suffix}", fill(field, present, high + 1), taken=False)
    if isinstance(steps[-1], str) and not path.endswith(".*"):
        yield from _absences(field, path, example, steps)


def _absences(
    field: dict[str, Any], path: str, example: dict[str, Any], steps: tuple[Step, ...]
) -> Iterator[Case]:
    where = field.get("refused_at") or spelled(steps)
    for says in ("absent", "null"):
        changed = copy.deepcopy(example)
        parent = reach(changed, steps[:-1])
        if says == "null":
            parent[steps[-1]] = None
        else:
            del parent[steps[-1]]
        if says == "null" and field["type"] == "json":
            continue
        refused = where if field.get("required") and "default" not in field else None
        yield Case(path, says, changed, refused, steps, field.get("default"), is_absent=refused is None)


def _text(field: dict[str, Any], present: str, length: int) -> str:
    return (field.get("starts", "") + "a" * length)[:length]


def _items(field: dict[str, Any], present: list[Any], length: int) -> list[Any]:
    return [_distinct(present[0], field.get("distinct"), index) for index in range(length)]


def _distinct(item: Any, name: str | None, index: int) -> Any:
    if name is None:
        return f"{item}-{index}" if isinstance(item, str) else item
    old = item[name]
    return item | {name: old + index if isinstance(old, int) else f"{old}{index}"}


def _entries(field: dict[str, Any], present: dict[str, Any], length: int) -> dict[str, Any]:
    value = next(iter(present.values()))
    return dict(list(present.items())[:length]) | {f"key-{n}": value for n in range(length - len(present))}


def locate(table: Table, path: str) -> tuple[dict[str, Any], tuple[Step, ...]]:
    """The first example that has the field, and where."""
    tokens = path.replace("[]", ".[]").split(".")
    for example in table.examples:
        for steps in _found(example, tokens):
            return example, steps
    raise LookupError(f"no example of {table.kind} has {path}")


def _found(value: Any, tokens: list[str]) -> Iterator[tuple[Step, ...]]:
    if not tokens:
        yield ()
        return
    token, *rest = tokens
    keys: list[Step] = [token]
    if token == "[]":
        keys = list(range(len(value))) if isinstance(value, list) else []
    elif token == "*":
        keys = list(value) if isinstance(value, dict) else []
    for key in keys:
        if isinstance(key, int) or (isinstance(value, dict) and key in value):
            for steps in _found(value[key], rest):
                yield (key, *steps)


def reach(value: Any, steps: tuple[Step, ...]) -> Any:
    """What is at a place of an object."""
    for step in steps:
        value = value[step]
    return value


def spelled(steps: tuple[Step, ...]) -> str:
    """The place as Kubernetes writes it in an error."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]
