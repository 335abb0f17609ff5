"""Walks an object and its schema in parallel, visiting each value once with all its keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from headgate.kubeschema import cel
from headgate.kubeschema.structural.errors import (
    MAX_ERRORS,
    FieldError,
    Findings,
    MapKey,
    Path,
    TooManyErrors,
    dotted,
)
from headgate.kubeschema.structural.shaping import MAX_DEPTH, Schema

__all__ = ["Check", "RuleSite", "Walk", "list_key"]

_NOTHING: Schema = {}
_RULES: Final = "x-kubernetes-validations"

Check: TypeAlias = "Callable[[Walk, Any, Any, Schema, Path], None]"
"""The check of one keyword: (walk, the keyword's argument, value, schema, path); it reports to the walk."""


class RuleSite(msgspec.Struct, frozen=True):
    """A value whose schema has CEL rules; `old` is the value before the update, or cel.MISSING.

    With `transitions_only`, only rules that compare with `oldSelf` are evaluated.
    """

    schema: Schema
    value: object
    old: object
    path: Path
    transitions_only: bool = False


class Walk:
    """Applies the checks to every value that the schema describes, and collects their findings.

    With `ratchets`, values that an update did not change are not checked.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        limit: int = MAX_ERRORS,
        depth: int = 0,
        *,
        ratchets: bool = False,
    ) -> None:
        self._ratchets = ratchets
        self.findings = Findings(limit)
        self.rule_sites: list[RuleSite] = []
        self.is_cut_short = False
        self._checks = checks
        self._depth = depth

    def run(self, schema: Schema, value: object, old: object = cel.MISSING, path: Path = None) -> None:
        """Visit the value and everything below it, until there are too many errors."""
        try:
            self._visit(schema, value, old, path)
        except TooManyErrors:
            self.is_cut_short = True

    def branch(self, schema: Schema, value: object, path: Path) -> list[FieldError]:
        """The errors of an alternative of anyOf and similar keywords; they are not added to this walk."""
        walk = Walk(self._checks, MAX_ERRORS, self._depth)
        walk.run(schema, value, path=path)
        return walk.findings.errors

    def add(self, reason: str, path: Path, detail: str, value: object) -> None:
        """Report an error at a path."""
        self.findings.add(reason, dotted(path), detail, value)

    def invalid(self, path: Path, value: object, complaint: str) -> None:
        """Report with the wording of most checks: "<path> in body <complaint>"."""
        where = dotted(path)
        self.findings.add("FieldValueInvalid", where, f"{where} in body {complaint}", value)

    def extend(self, errors: Iterable[FieldError]) -> None:
        """Add the errors of a branch."""
        self.findings.extend(errors)

    def _visit(self, schema: Schema, value: Any, old: object, path: Path) -> None:
        if self._depth >= MAX_DEPTH:
            self.invalid(path, "", f"should not be nested deeper than {MAX_DEPTH} levels")
            return
        if self._ratchets and same(value, old):
            self._visit_unchanged(schema, value, old, path)
            return
        if value is None:
            self._visit_null(schema, path)
            return
        self._depth += 1
        checks = self._checks
        for keyword, argument in schema.items():
            check = checks.get(keyword)
            if check is not None:
                check(self, argument, value, schema, path)
        if _RULES in schema:
            self.rule_sites.append(RuleSite(schema, value, old, path))
        if isinstance(value, dict):
            self._visit_map(schema, value, old, path)
        elif isinstance(value, list):
            self._visit_list(schema, value, old, path)
        self._depth -= 1

    def _visit_unchanged(self, schema: Schema, value: object, old: object, path: Path) -> None:
        walk = Walk({}, depth=self._depth)
        walk.run(schema, value, old, path)
        self.rule_sites += [msgspec.structs.replace(site, transitions_only=True) for site in walk.rule_sites]

    def _visit_null(self, schema: Schema, path: Path) -> None:
        for keyword in ("type", "enum"):
            if keyword in schema and (check := self._checks.get(keyword)):
                check(self, schema[keyword], None, schema, path)

    def _visit_map(self, schema: Schema, value: dict[str, Any], old: object, path: Path) -> None:
        properties = schema.get("properties") or _NOTHING
        additional = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else _NOTHING
        for key, item in value.items():
            child = properties.get(key)
            if child is not None:
                self._visit(child, item, before.get(key, cel.MISSING), (path, key))
            elif isinstance(additional, dict):
                self._visit(additional, item, before.get(key, cel.MISSING), (path, MapKey(key)))

    def _visit_list(self, schema: Schema, value: list[Any], old: object, path: Path) -> None:
        items = schema.get("items")
        if not isinstance(items, dict):
            return
        # Items beyond the limit of a list that is too long are not worth the time.
        for index, (item, before) in enumerate(islice(_with_old(schema, value, old), schema.get("maxItems"))):
            self._visit(items, item, before, (path, index))


def _with_old(schema: Schema, value: list[Any], old: object) -> Iterator[tuple[Any, object]]:
    """Each item with its old value: only items of a list map have an identity."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not isinstance(old, list) or not keys or schema.get("x-kubernetes-list-type") != "map":
        return ((item, cel.MISSING) for item in value)
    before = {list_key(keys, item): item for item in old}
    return ((item, before.get(list_key(keys, item), cel.MISSING)) for item in value)


def same(new: object, old: object) -> bool:
    """Whether two JSON values are equal; 1, 1.0 and true differ, and cel.MISSING differs from everything."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict) and isinstance(old, dict):
        return len(new) == len(old) and all(key in old and same(new[key], old[key]) for key in new)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return new == old


def list_key(keys: list[str], item: object) -> str:
    """The identity of an item in a list map, as text, so that 1, true and "1" differ."""
    if not isinstance(item, dict):
        return repr(item)
    return repr([item.get(key) for key in keys])
