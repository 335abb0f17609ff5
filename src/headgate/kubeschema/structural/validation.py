"""Validates an object by its schema and reports all errors at once, with kube-apiserver's messages.

Where kube-apiserver prints no field (for oneOf and similar keywords, and for integers beyond their format),
the path is given here, because an error without a place is useless. As in kube-apiserver, CEL rules run only
if the object is otherwise valid, since they may rely on its structure.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import msgspec

from headgate.kubeschema import cel
from headgate.kubeschema.structural import acceptance, rules, shaping, tidying
from headgate.kubeschema.structural.acceptance import CHECKS
from headgate.kubeschema.structural.errors import (
    MAX_ERRORS,
    NO_FIELD,
    FieldError,
    Findings,
    TooManyErrors,
    in_order,
)
from headgate.kubeschema.structural.nodes import has_rules
from headgate.kubeschema.structural.shaping import Schema
from headgate.kubeschema.structural.walk import RuleSite, Walk

__all__ = ["Lacking", "Prepared", "validate", "validate_value"]

_LIST_TYPE: Final = "x-kubernetes-list-type"
_REPETITION: Final = "FieldValueDuplicate"
_BLOCKS_RULES = frozenset(
    {
        "FieldValueTypeInvalid",
        "FieldValueRequired",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
    }
)
_RULES_SKIPPED: Final = FieldError(
    "FieldValueInvalid",
    NO_FIELD,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    None,
)
_CUT_SHORT: Final = FieldError(
    "FieldValueInvalid", NO_FIELD, f"too many errors: only the first {MAX_ERRORS} are listed", None
)
NOTES: Final = (_RULES_SKIPPED, _CUT_SHORT)
"""Entries about the list of errors itself: there may be more."""


def validate(
    schema: Schema, obj: dict[str, object], old: dict[str, object] | None = None
) -> list[FieldError]:
    """All errors of a pruned and defaulted object, ordered by field; empty if it is valid.

    `old` is the object before an update; without it, rules that compare with `oldSelf` do not apply. With it,
    errors in what the update did not change are ignored (Kubernetes calls this ratcheting): a schema that
    became stricter must not block changes to the rest of an object.
    """
    try:
        found = _validate(schema, obj, cel.MISSING if old is None else old)
        if found and old is not None:
            found = _validate(schema, obj, old, ratchets=True)
        return _all_with_fields(found)
    except RecursionError:  # from printing or comparing a value that the schema does not describe
        return [FieldError("FieldValueInvalid", NO_FIELD, "the object is nested too deeply", None)]


def broken_rules(
    schema: Schema, obj: dict[str, object], old: dict[str, object] | None = None
) -> list[FieldError]:
    """Like `validate`, for an object that is known to be valid except for its CEL rules."""
    walk = Walk({})
    walk.run(schema, obj, cel.MISSING if old is None else old)
    found = _broken_rules(walk.rule_sites, MAX_ERRORS)
    if found and old is not None:
        found = _validate(schema, obj, old, ratchets=True)
    return _all_with_fields(found)


def validate_value(schema: Schema, value: object) -> list[FieldError]:
    """All errors of a value without an old one; paths begin at the value."""
    return _validate(schema, value, cel.MISSING)


def _all_with_fields(found: list[FieldError]) -> list[FieldError]:
    return [error if error.field else msgspec.structs.replace(error, field=NO_FIELD) for error in found]


def _validate(schema: Schema, value: object, old: object, *, ratchets: bool = False) -> list[FieldError]:
    walk = Walk(CHECKS, ratchets=ratchets)
    walk.run(schema, value, old)
    found = in_order(walk.findings.errors)
    if ratchets and _repeats(found) and _repeats(_validate_lists(schema, old)):
        found = [error for error in found if error.reason != _REPETITION]
    if walk.is_cut_short:
        return [*found, _CUT_SHORT]
    if any(error.reason in _BLOCKS_RULES for error in found):
        return [*found, _RULES_SKIPPED] if has_rules(schema) else found
    return found + _broken_rules(walk.rule_sites, MAX_ERRORS - len(found))


def _repeats(errors: list[FieldError]) -> bool:
    return any(error.reason == _REPETITION for error in errors)


def _validate_lists(schema: Schema, obj: object) -> list[FieldError]:
    """Duplicates in lists that are sets or maps; Kubernetes accepts all of them if there were any before."""
    walk = Walk({_LIST_TYPE: CHECKS[_LIST_TYPE]})
    walk.run(schema, obj)
    return walk.findings.errors


def _broken_rules(sites: list[RuleSite], limit: int) -> list[FieldError]:
    if not sites:
        return []
    findings = Findings(limit)
    try:
        rules.evaluate(sites, findings)
    except TooManyErrors:
        return [*in_order(findings.errors), _CUT_SHORT]
    return in_order(findings.errors)


Object = dict[str, Any]


class Prepared:
    """`prune`, `default` and `validate` for one schema, with the same results at a fraction of the cost.

    Compiles the schema on first use; it must not change afterwards.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def prune(self, obj: Object) -> tuple[list[str], Lacking]:
        """Prune in place; returns the removed paths, and the defaults that the rest lacks."""
        fills: tidying.Fills = []
        if self._look(obj, fills):
            return [], Lacking(self.schema, fills)
        return shaping.prune(self.schema, obj), Lacking(self.schema)

    def validate(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """All errors of a pruned and defaulted object, as `validate` finds them."""
        if not self._glance(obj):
            return validate(self.schema, obj, old)
        return broken_rules(self.schema, obj, old) if self._has_rules else []

    @cached_property
    def _look(self) -> tidying.Look:
        return tidying.compiled(self.schema)

    @cached_property
    def _glance(self) -> acceptance.Glance:
        return acceptance.compiled(self.schema)

    @cached_property
    def _has_rules(self) -> bool:
        return has_rules(self.schema)


class Lacking:
    """The missing defaults of a pruned object. Fill them in before any other change of the object."""

    def __init__(self, schema: Schema, fills: tidying.Fills | None = None) -> None:
        self._schema = schema
        self._fills = fills

    def fill(self, obj: Object, max_bytes: int = shaping.MAX_DEFAULT_BYTES) -> None:
        """Fill the defaults in, in place; a null that is not allowed counts as absent. Raises
        DefaultsTooLarge."""
        if self._fills is None:
            shaping.default(self._schema, obj, max_bytes)
        else:
            tidying.fill(self._fills, max_bytes)
