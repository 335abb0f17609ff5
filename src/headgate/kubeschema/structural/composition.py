"""allOf, anyOf, oneOf and not: schemas that combine others by value."""

from typing import Any, Final

from headgate.kubeschema.structural.errors import FieldError, quoted
from headgate.kubeschema.structural.paths import Path, dotted
from headgate.kubeschema.structural.shaping import Schema
from headgate.kubeschema.structural.walk import Check, Walk

__all__ = ["COMPOSITION"]


def _all_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = [walk.branch(branch, value, path) for branch in branches]
    for errors in results:
        walk.extend(errors)
    if any(results):
        _refuse(
            walk, path, "must validate all the schemas (allOf)", "" if not all(results) else "None validated"
        )


def _any_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = []
    for branch in branches:
        results.append(walk.branch(branch, value, path))
        if not results[-1]:
            return
    _refuse(walk, path, "must validate at least one schema (anyOf)", "")
    walk.extend(_closest(results))


def _one_of(walk: Walk, branches: list[Schema], value: Any, schema: Schema, path: Path) -> None:
    results = [walk.branch(branch, value, path) for branch in branches]
    valid = sum(not errors for errors in results)
    if valid == 1:
        return
    found = f"Found {valid} valid alternatives" if valid else "Found none valid"
    _refuse(walk, path, "must validate one and only one schema (oneOf)", found)
    if not valid:
        walk.extend(_closest(results))


def _not(walk: Walk, branch: Schema, value: Any, schema: Schema, path: Path) -> None:
    if not walk.branch(branch, value, path):
        _refuse(walk, path, "must not validate the schema (not)", "")


def _refuse(walk: Walk, path: Path, complaint: str, found: str) -> None:
    detail = f"{quoted(dotted(path))} {complaint}"
    walk.add("FieldValueInvalid", path, f"{detail}. {found}" if found else detail, "")


def _closest(results: list[list[FieldError]]) -> list[FieldError]:
    """The errors of the alternative that was missed by least, which is probably the one meant."""
    return min(results, key=len, default=[])


COMPOSITION: Final[dict[str, Check]] = {"allOf": _all_of, "anyOf": _any_of, "oneOf": _one_of, "not": _not}
