"""Judges a schema itself when a CustomResourceDefinition brings it, so that objects meet only sound rules."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

from headgate.kubeschema.structural import arguments, structure
from headgate.kubeschema.structural.errors import NO_FIELD, FieldError, Findings, TooManyErrors, in_order
from headgate.kubeschema.structural.nodes import Node, nodes
from headgate.kubeschema.structural.paths import Path, keyed
from headgate.kubeschema.structural.rules import rule_faults
from headgate.kubeschema.structural.shaping import MAX_DEPTH, Schema, prune
from headgate.kubeschema.structural.validation import validate_value

__all__ = ["check"]

_RULES: Final = "x-kubernetes-validations"


def check(schema: Schema, field: str = "") -> list[FieldError]:
    """Every fault of a schema: what is not structural, does not compile, nests without end, or defaults to
    a value that it refuses itself.

    `field` is where the schema lies, for instance "spec.versions[0].schema.openAPIV3Schema".
    """
    path: Path = (None, field) if field else None
    return (
        _found(_malformed(schema, path))
        or _found(fault for node in nodes(schema, path) for fault in _faults(node))
        or _found(fault for node in nodes(schema, path) for fault in _default_faults(node))
    )


def _found(faults: Iterable[FieldError]) -> list[FieldError]:
    findings = Findings()
    with contextlib.suppress(TooManyErrors):
        findings.extend(faults)
    return in_order(findings.errors)


def _malformed(schema: Schema, path: Path) -> Iterator[FieldError]:
    """What keeps a schema from being read at all."""
    for node in nodes(schema, path):
        if node.is_too_deep:
            detail = f"must not be nested deeper than {MAX_DEPTH} levels"
            yield FieldError("FieldValueInvalid", keyed(node.path), detail)
        yield from arguments.faults(node)


def _faults(node: Node) -> Iterator[FieldError]:
    yield from structure.faults(node)
    yield from rule_faults(node)


def _default_faults(node: Node) -> Iterator[FieldError]:
    value, field = node.schema.get("default"), keyed((node.path, "default"))
    if value is None or node.is_nested:
        return
    if not _is_pruned(node.schema, value):
        yield FieldError("FieldValueInvalid", field, "must not have unknown fields", value)
        return
    for error in validate_value(node.schema, value):
        if error.field != NO_FIELD:
            inner = error.field if error.field[:1] in ("", "[") else f".{error.field}"
            yield FieldError(error.reason, field + inner, error.detail.strip(), error.value)


def _is_pruned(schema: Schema, value: Any) -> bool:
    holder: dict[str, Any] = {"value": copy.deepcopy(value)}
    return not prune({"properties": {"value": schema}}, holder)
