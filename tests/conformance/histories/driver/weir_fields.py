"""A Weir as a flat table of fields: path to value. What is owned, and what conflicts, are such paths.

A path is a tuple: ("spec", "width"); ("spec", "boards", "a") for the item with this key, and ("spec",
"boards", "a", "thickness") for what is in it; ("spec", "tags", "x") for a member of a set. Maps and lists
have no path of their own, and are there as long as something is in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
Fields = Mapping[Path, Any]

HELD_BY = "conformance.headgate.dev/hold"
DEFAULTS: Fields = {("spec", "material"): "oak"}
ITEM = "(item)"
"""The value of a keyed item as such, and of a member of a set: they are there or not."""

_BOARDS, _TAGS = ("spec", "boards"), ("spec", "tags")
_LABELS, _FINALIZERS = ("metadata", "labels"), ("metadata", "finalizers")
_GRANULAR = {("spec", "notes"), _LABELS}


def flat(obj: Any) -> dict[Path, Any]:
    """The fields of an object that clients can set, its status apart."""
    meta = obj.get("metadata", {})
    found: dict[Path, Any] = {(*_LABELS, name): value for name, value in (meta.get("labels") or {}).items()}
    found |= {(*_FINALIZERS, name): ITEM for name in meta.get("finalizers") or ()}
    for name, value in (obj.get("spec") or {}).items():
        found |= dict(_flat_field(("spec", name), value))
    return found


def _flat_field(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if path in _GRANULAR:
        yield from (((*path, name), inner) for name, inner in value.items())
    elif path == _TAGS:
        yield from (((*path, tag), ITEM) for tag in value)
    elif path == _BOARDS:
        for board in value:
            at = (*path, board["id"])
            yield at, ITEM
            yield from (((*at, name), inner) for name, inner in board.items())
    else:
        yield path, value


def spec_of(fields: Fields) -> dict[str, Any]:
    """The spec that has these fields."""
    spec: dict[str, Any] = {}
    boards: dict[str, dict[str, Any]] = {}
    for path, value in sorted(fields.items(), key=lambda item: item[0]):
        match path:
            case ("spec", "boards", key):
                boards.setdefault(key, {})
            case ("spec", "boards", key, name):
                boards.setdefault(key, {})[name] = value
            case ("spec", "tags", tag):
                spec.setdefault("tags", []).append(tag)
            case ("spec", parent, name):
                spec.setdefault(parent, {})[name] = value
            case ("spec", name):
                spec[name] = value
    return spec | ({"boards": list(boards.values())} if boards else {})


def metadata_of(fields: Fields) -> dict[str, Any]:
    """The labels and finalizers among these fields."""
    labels = {path[2]: value for path, value in fields.items() if path[:2] == _LABELS}
    held = [path[2] for path in sorted(fields) if path[:2] == _FINALIZERS]
    return ({"labels": labels} if labels else {}) | ({"finalizers": held} if held else {})


def printed(path: Path) -> str:
    """A path as a conflict names it."""
    match path:
        case ("spec", "boards", key, *rest):
            return "".join([f'.spec.boards[id="{key}"]', *(f".{name}" for name in rest)])
        case ("spec", "tags", tag) | ("metadata", "finalizers", tag):
            return f'.{path[0]}.{path[1]}[="{tag}"]'
        case _:
            return "." + ".".join(path)


def owned(entry: Any) -> frozenset[Path]:
    """The fields of an entry of managedFields, without maps and lists themselves."""
    return frozenset(path for path in _members(entry["fieldsV1"], ()) if _is_field(path))


def _members(tree: Any, path: Path) -> Iterable[Path]:
    if path and (not tree or "." in tree):
        yield path
    for element, inner in tree.items():
        if element != ".":
            yield from _members(inner, (*path, _name(element)))


def _name(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "k":
        return str(json.loads(rest)["id"])
    return str(json.loads(rest)) if kind == "v" else rest


def _is_field(path: Path) -> bool:
    containers = {("spec",), ("status",), ("metadata",), _BOARDS, _TAGS, _FINALIZERS, *_GRANULAR}
    return path not in containers
