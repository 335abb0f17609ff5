"""Unknown fields in the schemas of definitions, where a keyword that is misspelt checks nothing.

The schema of a CustomResourceDefinition cannot say what a schema may have, because schemas are in schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

_SCHEMA = frozenset({"not", "items", "additionalItems", "additionalProperties"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "items"})
_BY_NAME = frozenset({"properties", "patternProperties", "definitions", "dependencies"})
_PLAIN = frozenset(
    {"$ref", "$schema", "id", "title", "description", "example", "type", "format", "nullable", "default"}
    | {"enum", "required", "pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf"}
    | {"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems"}
    | {"minProperties", "maxProperties", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"}
    | {"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"}
    | {"x-kubernetes-preserve-unknown-fields"}
)
_PARTS = {
    "externalDocs": frozenset({"description", "url"}),
    "x-kubernetes-validations": frozenset(
        {"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}
    ),
}
_KNOWN = _SCHEMA | _SCHEMAS | _BY_NAME | _PLAIN | _PARTS.keys()


def prune(definition: Object) -> list[str]:
    """Removes what no schema has from the schemas of a definition, and gives the paths of what went."""
    removed: list[str] = []
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        validation = version.get("schema") if isinstance(version, dict) else None
        schema = validation.get("openAPIV3Schema") if isinstance(validation, dict) else None
        _prune(schema, f"spec.versions[{index}].schema.openAPIV3Schema", removed)
    return removed


def _prune(schema: Any, path: str, removed: list[str]) -> None:
    """What is no object is not judged here."""
    if not isinstance(schema, dict):
        return
    _keep(schema, _KNOWN, path, removed)
    for inner, at in _inside(schema, path):
        _prune(inner, at, removed)
    for keyword, known in _PARTS.items():
        part = schema.get(keyword)
        if isinstance(part, dict):
            _keep(part, known, f"{path}.{keyword}", removed)
        for index, each in enumerate(part if isinstance(part, list) else ()):
            if isinstance(each, dict):
                _keep(each, known, f"{path}.{keyword}[{index}]", removed)


def _keep(value: Object, known: frozenset[str], path: str, removed: list[str]) -> None:
    for name in [name for name in value if name not in known]:
        del value[name]
        removed.append(f"{path}.{name}")


def _inside(schema: Object, path: str) -> Iterator[tuple[Any, str]]:
    for keyword, value in schema.items():
        if isinstance(value, dict) and keyword in _BY_NAME:
            yield from ((inner, f"{path}.{keyword}.{name}") for name, inner in value.items())
        elif isinstance(value, dict) and keyword in _SCHEMA:
            yield value, f"{path}.{keyword}"
        elif isinstance(value, list) and keyword in _SCHEMAS:
            yield from ((inner, f"{path}.{keyword}[{index}]") for index, inner in enumerate(value))
