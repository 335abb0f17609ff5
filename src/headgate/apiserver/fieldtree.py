"""fieldsV1 of a whole object at once, for its single owner: `fieldset.encode` of its `fieldset.leaves`, with
the maps and lists that have contents.

A schema is compiled into one small function for each field on first use, so that a create, which claims all
fields of its object, does not interpret the schema again for every field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from headgate.apiserver import fieldset
from headgate.apiserver.fieldset import Schema

__all__ = ["Tree", "compiled"]

Fields: TypeAlias = "dict[str, Any]"
Tree: TypeAlias = Callable[[Any], Fields]
"""The fieldsV1 tree below a map or list; empty for a single value."""

_COMPOSED: Final = frozenset({dict, list})


def compiled(schema: Schema) -> Tree:
    """The function that returns the tree of any value of this schema."""
    fields = _Elements(schema)
    in_list = _in_list(schema)
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"

    def tree(value: Any) -> Fields:
        if value.__class__ is list:
            return in_list(value)
        if value.__class__ is not dict or is_atomic:
            return {}
        made: Fields = {}
        for name in sorted(value) if len(value) > 1 else value:
            element, inside = fields[name]
            item = value[name]
            made[element] = inside(item) if item.__class__ in _COMPOSED else {}
        if made:
            made["."] = {}
        return made

    return tree


class _Elements(dict[str, tuple[str, Tree]]):
    """The `f:` elements of a map's fields, each with the function for its contents.

    Fields without their own schema are not cached: clients choose their names.
    """

    def __init__(self, schema: Schema) -> None:
        self._properties: Schema = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        self._additional: Schema = additional if isinstance(additional, dict) else {}
        self._other: Tree | None = None

    def __missing__(self, name: str) -> tuple[str, Tree]:
        if name in self._properties:
            found = self[name] = (f"f:{name}", compiled(self._properties[name]))
            return found
        if self._other is None:
            self._other = compiled(self._additional) if self._additional else _UNDESCRIBED
        return f"f:{name}", self._other


def _in_list(schema: Schema) -> Tree:
    how = fieldset.declared(schema)
    if how.is_set:
        return lambda items: _members(schema, items)
    if not how.keys:
        return lambda items: {}
    inside = compiled(schema.get("items", {}))

    def tree(items: list[Any]) -> Fields:
        below: dict[str, Fields] = {}
        for item in items:
            element = fieldset.item_element(item, how.keys, schema) if item.__class__ is dict else None
            if element is None or element in below:
                return {}
            below[element] = inside(item)
        made = {element: below[element] for element in sorted(below)} if len(below) > 1 else below
        if made:
            made["."] = {}
        return made

    return tree


def _members(schema: Schema, items: list[Any]) -> Fields:
    if not items or not fieldset.listing(schema, items).is_set:
        return {}
    return {".": {}} | {element: {} for element in sorted(map(fieldset.member_element, items))}


_UNDESCRIBED: Final = compiled({})
