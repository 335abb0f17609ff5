"""A schema made ready to judge many objects: what is in order passes at a glance, all else in detail."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from headgate.kubeschema.structural import acceptance, shaping, tidying
from headgate.kubeschema.structural.errors import FieldError
from headgate.kubeschema.structural.nodes import has_rules
from headgate.kubeschema.structural.shaping import Schema
from headgate.kubeschema.structural.validation import broken_rules, validate

__all__ = ["Lacking", "Prepared"]

Object = dict[str, Any]


class Prepared:
    """`prune`, `default` and `validate` for one schema, with the same results at a fraction of the cost.

    It compiles the schema when the first object comes; the schema must not change afterwards.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def prune(self, obj: Object) -> tuple[list[str], Lacking]:
        """Prunes in place; gives the paths of what went, and what can fill in the defaults of the rest."""
        fills: tidying.Fills = []
        if self._look(obj, fills):
            return [], Lacking(self.schema, fills)
        return shaping.prune(self.schema, obj), Lacking(self.schema)

    def validate(self, obj: Object, old: Object | None = None) -> list[FieldError]:
        """Every error of a pruned and defaulted object, as `validate` finds them."""
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
    """The defaults that a pruned object lacks. It is to be filled in before the object changes otherwise."""

    def __init__(self, schema: Schema, fills: tidying.Fills | None = None) -> None:
        self._schema = schema
        self._fills = fills

    def fill(self, obj: Object, max_bytes: int = shaping.MAX_DEFAULT_BYTES) -> None:
        """Fills them in, in place; null where it may not be counts as absent. Raises DefaultsTooLarge."""
        if self._fills is None:
            shaping.default(self._schema, obj, max_bytes)
        else:
            tidying.fill(self._fills, max_bytes)
