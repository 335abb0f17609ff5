"""Fast check that an object needs no pruning, and which defaults it lacks: one walk instead of three.

Nearly every object has only fields of its schema, and no nulls. A schema is compiled once into one small
function for each of its maps and lists, called a look. It changes nothing, and is one-sided: False means
"maybe not", and then `shaping.prune` and `shaping.default` do the work. So a look may ignore rare cases
(null, values of another type, depth), but must never be lenient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from headgate.kubeschema.structural import shaping
from headgate.kubeschema.structural.shaping import MAX_DEPTH, ROOT_FIELDS, Schema

__all__ = ["Fills", "Look", "compiled", "fill"]

Fills: TypeAlias = "list[tuple[dict[str, Any], Mapping[str, Any]]]"
"""Maps that lack fields with a default, each with all defaults of its schema."""
Look: TypeAlias = Callable[[Any, Fills], bool]
"""Whether nothing is to be pruned from a map, a list or null; collects the missing defaults."""

_COMPOSED: Final = frozenset({dict, list, type(None)})
"""Types to look into; others have no fields."""
_COMPILED_BYTES: Final = 16 * 1024
"""Limit for completing the defaults of a map in advance: larger ones take too long while others wait."""
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"


def compiled(schema: Schema) -> Look:
    """The look at an object; like `prune`, it ignores apiVersion, kind and metadata."""
    return _map(schema, 0, is_resource=True)


def fill(fills: Fills, max_bytes: int) -> None:
    """Fill in, in place, what a look has collected. Raises DefaultsTooLarge."""
    filled = shaping.Defaults(max_bytes)
    for value, defaults in fills:
        for name, default in defaults.items():
            if name not in value:
                value[name] = filled.copy(default)


def _anything(value: Any, fills: Fills) -> bool:
    return True


def _never(value: Any, fills: Fills) -> bool:
    return False


def _empty(value: Any, fills: Fills) -> bool:
    """Whether nothing is to be pruned from a value that the schema neither describes nor keeps."""
    return value is not None and not value


def _null_or_empty(value: Any, fills: Fills) -> bool:
    return not value


def _of(schema: Schema, depth: int) -> Look:
    if depth >= MAX_DEPTH:
        return _never
    if "properties" in schema or schema.get("additionalProperties") or schema.get(_KEEP):
        return _map(schema, depth)
    if "items" in schema:
        return _list(schema, depth)
    return _null_or_empty if schema.get("nullable") else _empty


def _map(schema: Schema, depth: int, *, is_resource: bool = False) -> Look:
    fields = _Fields(schema, depth)
    if is_resource or schema.get("x-kubernetes-embedded-resource"):
        fields.keep_what_all_objects_have()
    try:
        defaults = _defaults(schema)
    except shaping.DefaultsTooLarge:  # `shaping.default` fills them in, if the object lacks them
        return _never
    names = defaults.keys()
    is_nullable = bool(schema.get("nullable"))

    def look(value: Any, fills: Fills) -> bool:
        if value.__class__ is not dict:
            return value is None and is_nullable
        for name, item in value.items():
            inside = fields[name]
            if inside is None or (item.__class__ in _COMPOSED and not inside(item, fills)):
                return False
        if names and not names <= value.keys():
            fills.append((value, defaults))
        return True

    return look


class _Fields(dict[str, "Look | None"]):
    """The looks at a map's fields, each compiled on first use: most kinds have many more fields than are set.
    None means that the field is pruned."""

    def __init__(self, schema: Schema, depth: int) -> None:
        self._schema = schema
        self._depth = depth
        self._properties: Schema = schema.get("properties") or {}
        self._other = _other(schema, depth)

    def __missing__(self, name: str) -> Look | None:
        child = self._properties.get(name)
        if child is None:
            return self._other  # and not cached: such names come from clients
        look = self[name] = _of(child, self._depth + 1)
        return look

    def keep_what_all_objects_have(self) -> None:
        """Keep apiVersion, kind and metadata: they are never pruned, nor changed without a schema of their
        own."""
        if not self._schema.get("additionalProperties"):
            self.update(dict.fromkeys(ROOT_FIELDS - self._properties.keys(), _anything))


def _other(schema: Schema, depth: int) -> Look | None:
    """The look at fields without a schema of their own; None if they are pruned."""
    additional = schema.get("additionalProperties")
    if additional is True:
        return _null_or_empty
    if additional:
        return _of(additional, depth + 1)
    if schema.get(_KEEP) is not True:
        return None
    return _anything if additional is None else _empty


def _defaults(schema: Schema) -> dict[str, Any]:
    """The defaults of the fields, each completed with its own missing defaults."""
    found = {}
    copied = shaping.Defaults(_COMPILED_BYTES)
    for name, child in (schema.get("properties") or {}).items():
        if "default" in child:
            found[name] = copied.copy(child["default"])
            shaping.complete(child, found[name], copied)
    return found


def _list(schema: Schema, depth: int) -> Look:
    items = schema["items"]
    if not isinstance(items, dict):
        return _empty
    inside = _of(items, depth + 1)
    is_nullable = bool(schema.get("nullable"))

    def look(value: Any, fills: Fills) -> bool:
        if value.__class__ is not list:
            return value is None and is_nullable
        for item in value:  # noqa: SIM110 (a generator would cost more than the checks)
            if item.__class__ in _COMPOSED and not inside(item, fills):
                return False
        return True

    return look
