"""Converts the content of a file to typed values, and reports all errors at once."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from headgate.scheduling.configuration.problems import Problems, meant

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_NOTHING = object()
_SHOWN = 60


def read_struct(kind: type[_Struct], value: object, path: str, problems: Problems) -> _Struct | None:
    """A value as a struct; invalid fields get their default. None if that is impossible."""
    if not isinstance(value, Mapping):
        problems.error(path, f"it must be a mapping, not {shown(value)}")
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    hints = typing.get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    is_whole = True
    for name, given in value.items():
        at = f"{path}.{name}" if path else str(name)
        field = fields.get(str(name))
        if field is None:
            problems.unknown(at, meant(str(name), fields))
        elif given is not None:
            made = convert(hints[field.name], given, at, problems)
            if made is _NOTHING:
                is_whole = False
            else:
                values[field.name] = made
    for name, field in fields.items():
        if field.required and value.get(name) is None:
            problems.error(f"{path}.{name}" if path else name, "it is required")
            is_whole = False
    if any(field.required and field.name not in values for field in fields.values()):
        return None
    try:
        return kind(**values)
    except ValueError as error:
        if is_whole:
            problems.error(path, str(error))
        return None


def convert(annotation: Any, value: object, path: str, problems: Problems) -> Any:
    """A value of a type; _NOTHING, with an error, if it is invalid."""
    bare = _bare(annotation)
    origin, arguments = typing.get_origin(bare), typing.get_args(bare)
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        made = read_struct(bare, value, path, problems)
        return _NOTHING if made is None else made
    if origin in (tuple, list) and isinstance(value, list):
        item = _bare(arguments[0])
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            items = [read_struct(item, each, f"{path}[{at}]", problems) for at, each in enumerate(value)]
            if not items:
                return _plain(annotation, [], path, problems)
            return tuple(items)
    return _plain(annotation, value, path, problems)


def _plain(annotation: Any, value: object, path: str, problems: Problems) -> Any:
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        problems.error(path, f"{shown(value)}: {_told(error)}")
        return _NOTHING


def _told(error: msgspec.ValidationError) -> str:
    """The text of an error; a path inside the value follows it, without its leading `$`."""
    text, _, inside = str(error).partition(" - at `$")
    text = text.replace("`", "").replace("Expected", "expected").replace("Invalid", "invalid")
    return f"{text} at {inside.rstrip('`')}" if inside.rstrip("`") else text


def _bare(annotation: Any) -> Any:
    """The type without annotations, and without None."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [each for each in typing.get_args(annotation) if each is not type(None)]
        if len(rest) == 1:
            return _bare(rest[0])
    return annotation


def extras(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """Extra annotations of fields, by their names in files."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found: dict[str, dict[str, Any]] = {}
    for field in msgspec.structs.fields(kind):
        merged: dict[str, Any] = {}
        for meta in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.extra:
                merged |= meta.extra
        found[field.encode_name] = merged
    return found


def shown(value: object) -> str:
    """A value for a message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
