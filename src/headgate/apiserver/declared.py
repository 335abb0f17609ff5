"""Which fields of an applied object its schema does not have: server-side apply takes no such object.

Other writes drop these fields, or refuse them if validation is strict; who applies declares what he owns, and
nobody can own what cannot be stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.apiserver import errors, fieldset
from headgate.apiserver.fieldset import Schema
from headgate.apiserver.targets import Target
from headgate.kubeschema.structural import MAX_DEPTH

_KEEP = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_OF_RESOURCES = frozenset({"apiVersion", "kind", "metadata"})


def check(target: Target, applied: dict[str, Any]) -> None:
    """400 with every field that is not declared, by its path: `.spec.containers[name="a"].imgae`."""
    schema = target.served.merge_schema
    body = {name: value for name, value in applied.items() if name not in ("apiVersion", "kind")}
    found = [f"{path}: field not declared in schema" for path in _undeclared(body, schema, "", 0)]
    if not found:
        return
    told = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found[: errors.MAX_CAUSES]])
    kind = f"{target.served.group}/{target.served.version}, Kind={target.served.kind}"
    of = f"{target.namespace}/{target.name}; {kind}"
    raise errors.bad_request(f"failed to create typed patch object ({of}): {told}")


def _undeclared(value: Any, schema: Schema, path: str, depth: int) -> Iterator[str]:
    if depth >= MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield from _undeclared_fields(value, schema, path, depth)
    elif isinstance(value, list):
        items = schema.get("items", {})
        how = fieldset.listing(schema, value)
        for index, item in enumerate(value):
            if how.keys:
                element = fieldset.item_element(item, how.keys, schema) or ""
                at = path + fieldset.shown((element,))
            else:
                at = f"{path}[{index}]"
            yield from _undeclared(item, items, at, depth + 1)


def _undeclared_fields(value: dict[str, Any], schema: Schema, path: str, depth: int) -> Iterator[str]:
    """A schema that names no fields leaves them to pruning."""
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    names_them = bool(properties) and not additional and not schema.get(_KEEP)
    for name, inner in value.items():
        at = f"{path}.{name}"
        if name in properties or isinstance(additional, dict):
            yield from _undeclared(inner, fieldset.child(schema, name), at, depth + 1)
        elif names_them and not (schema.get(_EMBEDDED) and name in _OF_RESOURCES):
            yield at
