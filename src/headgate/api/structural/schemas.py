"""Judges a schema itself when a CustomResourceDefinition brings it, so that objects meet only sound rules."""

from collections.abc import Iterator
from typing import Any

from headgate.api.structural import patterns
from headgate.api.structural.errors import FieldError, Findings, TooManyErrors, in_order
from headgate.api.structural.paths import MapKey, Path, keyed
from headgate.api.structural.rules import rule_faults
from headgate.api.structural.shaping import MAX_DEPTH, Schema

__all__ = ["check", "has_rules"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def check(schema: Schema, field: str = "") -> list[FieldError]:
    """Every fault of a schema: unknown types, patterns and CEL rules that do not compile, endless nesting.

    `field` is where the schema lies, for instance "spec.versions[0].schema.openAPIV3Schema".
    """
    findings = Findings()
    try:
        for path, node in _nodes(schema, (None, field) if field else None, 0, findings):
            findings.extend(_faults(node, path))
    except TooManyErrors:
        pass
    return in_order(findings.errors)


def has_rules(schema: Schema) -> bool:
    """Whether any part of the schema has CEL rules."""
    return any("x-kubernetes-validations" in node for _, node in _nodes(schema, None, 0, Findings()))


def _faults(node: Schema, path: Path) -> Iterator[FieldError]:
    kind = node.get("type")
    if kind is not None and kind not in _TYPES:
        detail = "supported values: " + ", ".join(f'"{name}"' for name in _TYPES)
        yield FieldError("FieldValueNotSupported", keyed((path, "type")), detail, kind)
    if isinstance(pattern := node.get("pattern"), str) and (problem := patterns.fault(pattern)):
        yield FieldError("FieldValueInvalid", keyed((path, "pattern")), problem, pattern)
    yield from rule_faults(node.get("x-kubernetes-validations"), (path, "x-kubernetes-validations"))


def _nodes(schema: Any, path: Path, depth: int, findings: Findings) -> Iterator[tuple[Path, Schema]]:
    """The schema and all schemas inside it."""
    if not isinstance(schema, dict):
        return
    if depth >= MAX_DEPTH:
        findings.add("FieldValueInvalid", keyed(path), f"must not be nested deeper than {MAX_DEPTH} levels")
        return
    yield path, schema
    for child_path, child in _children(schema, path):
        yield from _nodes(child, child_path, depth + 1, findings)


def _children(schema: Schema, path: Path) -> Iterator[tuple[Path, Any]]:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, child in properties.items():
            yield ((path, "properties"), MapKey(name)), child
    for keyword in ("items", "additionalProperties", "not"):
        yield (path, keyword), schema.get(keyword)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword)
        for index, child in enumerate(branches if isinstance(branches, list) else []):
            yield ((path, keyword), index), child
