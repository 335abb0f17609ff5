"""Prunes and defaults objects before validation.

Follows kube-apiserver for custom resources. Both work in place on plain dicts and lists, and neither descends
deeper than MAX_DEPTH.
"""

from typing import Any, Final

import msgspec

__all__ = [
    "MAX_DEFAULT_BYTES",
    "MAX_DEPTH",
    "ROOT_FIELDS",
    "Defaults",
    "DefaultsTooLarge",
    "Schema",
    "complete",
    "default",
    "prune",
]

Schema = dict[str, Any]
MAX_DEPTH: Final = 100
"""Levels of nesting that are processed; anything deeper is pruned and rejected."""

ROOT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"
_KEEPS_UNKNOWN: Schema = {_KEEP: True}
_NOTHING: Schema = {}


def prune(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Remove fields that the schema does not name, and return their paths, such as "spec.rules[0].nmae".

    apiVersion, kind and metadata stay, at the root and in an `x-kubernetes-embedded-resource`.
    """
    removed: list[str] = []
    _prune(schema, obj, "", removed, is_resource=True, depth=0)
    return removed


def _prune(
    schema: Schema, value: object, path: str, removed: list[str], *, is_resource: bool = False, depth: int
) -> None:
    if isinstance(value, dict):
        _prune_map(schema, value, path, removed, is_resource, depth)
    elif isinstance(value, list) and depth >= MAX_DEPTH:
        value.clear()
        removed.append(path)
    elif isinstance(value, list):
        items = schema.get("items")
        if items is None:
            items = _KEEPS_UNKNOWN if schema.get(_KEEP) else _NOTHING
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                _prune(items, item, f"{path}[{index}]", removed, depth=depth + 1)


def _prune_map(
    schema: Schema, value: dict[str, Any], path: str, removed: list[str], is_resource: bool, depth: int
) -> None:
    keeps_unknown = schema.get(_KEEP) is True and depth < MAX_DEPTH
    is_resource = is_resource or schema.get("x-kubernetes-embedded-resource") is True
    properties = schema.get("properties") or _NOTHING
    additional = schema.get("additionalProperties")
    for key in list(value):
        if is_resource and key in ROOT_FIELDS:
            continue
        child = properties.get(key)
        if child is None and additional:
            child = additional if isinstance(additional, dict) else _NOTHING
        where = f"{path}.{key}" if path else key
        if depth >= MAX_DEPTH or (child is None and not keeps_unknown):
            del value[key]
            removed.append(where)
        elif child is not None and isinstance(value[key], dict | list):
            _prune(child, value[key], where, removed, depth=depth + 1)


MAX_DEFAULT_BYTES: Final = 2_000_000
"""More than the largest object: a large default for each of many items would need unlimited memory."""
FIELD_BYTES: Final = 20
"""Added for each default to its length, because every field costs time, however short it is."""


class DefaultsTooLarge(ValueError):  # noqa: N818 - reads as what it says
    """The missing defaults of an object are larger than any object may be."""

    def __init__(self) -> None:
        super().__init__(
            f"the defaults of its schema would add more than {MAX_DEFAULT_BYTES} bytes: "
            "write fewer items, or give the definition smaller defaults"
        )


class Defaults:
    """Copies defaults for one object, up to a limit."""

    def __init__(self, max_bytes: int = MAX_DEFAULT_BYTES) -> None:
        self._left = max_bytes

    def copy(self, default: Any) -> Any:
        """Raises DefaultsTooLarge."""
        if isinstance(default, dict | list):
            encoded = msgspec.json.encode(default)
            self.spend(FIELD_BYTES + len(encoded))
            return msgspec.json.decode(encoded)  # ten times as fast as copy.deepcopy
        self.spend(FIELD_BYTES + (len(default) if isinstance(default, str) else 0))
        return default

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise DefaultsTooLarge


def default(schema: Schema, obj: dict[str, Any], max_bytes: int = MAX_DEFAULT_BYTES) -> None:
    """Fill in defaults, in lists and maps too. Raises DefaultsTooLarge if they exceed `max_bytes`.

    As Kubernetes documents it, null in a field that is not nullable counts as absent: it is removed, and then
    the field's default applies, if there is one. Null in a nullable field stays, default or not.
    """
    _default(schema, obj, 0, Defaults(max_bytes))


def complete(schema: Schema, default: object, defaults: Defaults) -> None:
    """Fill in the defaults of a schema in a copy of its own default."""
    _default(schema, default, 0, defaults)


def _default(schema: Schema, value: object, depth: int, defaults: Defaults) -> None:
    if depth >= MAX_DEPTH:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or _NOTHING
        _drop_nulls(properties, schema.get("additionalProperties"), value, defaults)
        for key, child in properties.items():
            if "default" in child and key not in value:
                value[key] = defaults.copy(child["default"])
        _default_children(value, properties, schema.get("additionalProperties"), depth, defaults)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                if item is None and "default" in items and not items.get("nullable"):
                    value[index] = defaults.copy(items["default"])
                _default(items, value[index], depth + 1, defaults)


def _default_children(
    value: dict[str, Any], properties: Schema, additional: object, depth: int, defaults: Defaults
) -> None:
    for key, item in value.items():
        if isinstance(item, dict | list):
            child = properties.get(key, additional)
            if isinstance(child, dict):
                _default(child, item, depth + 1, defaults)


def _drop_nulls(properties: Schema, additional: object, value: dict[str, Any], defaults: Defaults) -> None:
    if None not in value.values():
        return
    for key in [key for key, item in value.items() if item is None]:
        child = properties.get(key, additional)
        if not isinstance(child, dict) or child.get("nullable"):
            continue
        if key not in properties and "default" in child:
            value[key] = defaults.copy(child["default"])
        else:
            del value[key]
