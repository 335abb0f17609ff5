"""Fast check that an object satisfies its schema, without error messages.

A schema is compiled once into small functions, one for each value with constraints. They are one-sided: False
means "maybe not", and then `walk` validates the object, with messages and paths of all errors. A keyword may
have a fast form here; one without goes through its check in `keywords` or `composition`, so a new keyword is
right without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, Final, TypeAlias

from headgate.kubeschema.structural import patterns
from headgate.kubeschema.structural.errors import TooManyErrors
from headgate.kubeschema.structural.formats import FORMATS
from headgate.kubeschema.structural.keywords import COMPOSITION, KEYWORDS, RANGES
from headgate.kubeschema.structural.shaping import MAX_DEPTH, Schema
from headgate.kubeschema.structural.walk import Check, Walk

__all__ = ["CHECKS", "Glance", "compiled"]

CHECKS: Final = KEYWORDS | COMPOSITION
"""By keyword; other keywords do not constrain a value (rules are not evaluated here)."""

Glance: TypeAlias = Callable[[Any], bool]
"""Whether a value is valid; False if it is not, or if it needs the full check."""

_TYPES: Final[dict[str, type]] = {
    "boolean": bool,
    "string": str,
    "array": list,
    "object": dict,
}


def compiled(schema: Schema) -> Glance:
    """The fast check of a pruned and defaulted object."""
    return _of(schema, 0) or _anything


def _anything(value: Any) -> bool:
    return True


def _never(value: Any) -> bool:
    return False


def _of(schema: Schema, depth: int) -> Glance | None:
    """The fast check of a value; None if it has no constraints."""
    if depth >= MAX_DEPTH:
        return _never
    asked = []
    if (within := _whole_number(schema)) is not None:
        asked.append(within)
        schema = {name: argument for name, argument in schema.items() if name not in _ASKED_OF_NUMBERS}
    asked += [_keyword(name, argument, schema, depth) for name, argument in schema.items() if name in CHECKS]
    if inside := _inside(schema, depth):
        # It checks the type as well. It comes last, so that a list that is too long is not walked through.
        asked = [each for each in asked if not isinstance(each, _OfType)]
        asked.append(inside)
    return _all(asked) if asked else None


def _all(asked: list[Glance]) -> Glance:
    if len(asked) == 1:
        return asked[0]
    if len(asked) == 2:
        first, second = asked
        return lambda value: first(value) and second(value)

    def glance(value: Any) -> bool:
        for each in asked:  # noqa: SIM110 (a generator would cost more than the checks)
            if not each(value):
                return False
        return True

    return glance


# --- maps and lists -----------------------------------------------------------------------------------------


def _inside(schema: Schema, depth: int) -> Glance | None:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    items = schema.get("items")
    if schema.get("type") == "object" and (properties or isinstance(additional, dict)):
        other = _of(additional, depth + 1) if isinstance(additional, dict) else None
        return _in_map(_Fields(properties, depth, other)) if properties else _in_map_of(other)
    if schema.get("type") == "array" and isinstance(items, dict):
        return _in_list(_of(items, depth + 1))
    # Fields or items without a single type: such schemas are too rare for a fast form.
    return _never if properties or isinstance(additional, dict) or isinstance(items, dict) else None


def _in_map(fields: _Fields) -> Glance:
    types = fields.types

    def glance(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for name, item in value.items():
            if types.get(name) is not item.__class__:
                inside = fields[name]
                if inside is not None and not inside(item):
                    return False
        return True

    return glance


class _Fields(dict[str, "Glance | None"]):
    """The fast checks of a map's fields, each compiled on first use: most kinds have many more fields than
    are set."""

    def __init__(self, properties: Schema, depth: int, other: Glance | None) -> None:
        self._properties = properties
        self._depth = depth
        self._other = other
        self.types: dict[str, type] = {}
        """Fields whose only constraint is their type."""

    def __missing__(self, name: str) -> Glance | None:
        child = self._properties.get(name)
        if child is None:
            return self._other  # and not cached: such names come from clients
        glance = self[name] = _of(child, self._depth + 1)
        if isinstance(glance, _OfType):
            self.types[name] = glance.type
        return glance


def _in_map_of(other: Glance | None) -> Glance:
    alone = _type_alone(other)

    def glance(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        if other is not None:
            for item in value.values():
                if item.__class__ is not alone and not other(item):
                    return False
        return True

    return glance


def _in_list(item: Glance | None) -> Glance:
    alone = _type_alone(item)

    def glance(value: Any) -> bool:
        if value.__class__ is not list:
            return False
        if item is not None:
            for each in value:
                if each.__class__ is not alone and not item(each):
                    return False
        return True

    return glance


class _OfType:
    """Checks only the type, which maps and lists can do for their values without a call."""

    def __init__(self, wanted: type) -> None:
        self.type = wanted

    def __call__(self, value: Any) -> bool:
        return value.__class__ is self.type


def _type_alone(glance: Glance | None) -> type | None:
    return glance.type if isinstance(glance, _OfType) else None


# --- keywords -----------------------------------------------------------------------------------------------


def _keyword(name: str, argument: Any, schema: Schema, depth: int) -> Glance:
    quick = _QUICK.get(name)
    return (quick and quick(argument, schema)) or _by_check(CHECKS[name], argument, schema, depth)


def _by_check(check: Check, argument: Any, schema: Schema, depth: int) -> Glance:
    """The full check, applied to a single value without its message."""

    def glance(value: Any) -> bool:
        walk = Walk(CHECKS, depth=depth + 1)
        try:
            check(walk, argument, value, schema, None)
        except TooManyErrors:
            return False
        return not walk.findings.errors

    return glance


def _type(expected: str, schema: Schema) -> Glance | None:
    if expected == "number":
        return lambda value: value.__class__ is float or value.__class__ is int
    wanted = _TYPES.get(expected)
    return None if wanted is None else _OfType(wanted)


_ASKED_OF_NUMBERS: Final = frozenset({"type", "format", "minimum", "maximum"})


def _whole_number(schema: Schema) -> Glance | None:
    """The fast check of an integer, for all its keywords; None for any other schema."""
    if schema.get("type") != "integer" or schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum"):
        return None
    limit = RANGES.get(schema.get("format", "int64"))
    least, most = schema.get("minimum"), schema.get("maximum")
    if limit is not None:
        least = -limit if least is None else max(least, -limit)
        most = limit - 1 if most is None else min(most, limit - 1)
    elif least is None or most is None:
        return None
    return lambda value: value.__class__ is int and least <= value <= most


def _int_or_string(argument: bool, schema: Schema) -> Glance | None:
    return (lambda value: value.__class__ is str or value.__class__ is int) if argument else _anything


def _format(name: str, schema: Schema) -> Glance | None:
    accepts = FORMATS.get(name)
    if name in RANGES:
        return None
    if accepts is None or schema.get("type") != "string":
        return _anything
    return lambda value: value.__class__ is str and accepts(value)


def _enum(allowed: list[Any], schema: Schema) -> Glance | None:
    if not all(isinstance(choice, str) for choice in allowed):
        return None
    texts = frozenset(allowed)
    return lambda value: value.__class__ is str and value in texts


def _pattern(pattern: str, schema: Schema) -> Glance | None:
    if patterns.fault(pattern):
        return None
    found = patterns.found
    return lambda value: value.__class__ is not str or found(pattern, value)


def _required(names: list[str], schema: Schema) -> Glance | None:
    wanted = frozenset(names)
    return lambda value: value.__class__ is not dict or wanted <= value.keys()


def _list_type(name: str, schema: Schema) -> Glance | None:
    if name not in ("set", "map"):
        return _anything
    asked = _by_check(KEYWORDS["x-kubernetes-list-type"], name, schema, 0)
    return lambda value: value.__class__ is list and (len(value) < 2 or asked(value))


def _length(of: type[Sized], least: int | None = None, most: int | None = None) -> Glance:
    if most is None:
        assert least is not None
        return lambda value: not isinstance(value, of) or len(value) >= least
    return lambda value: not isinstance(value, of) or len(value) <= most


_QUICK: Final[dict[str, Callable[[Any, Schema], Glance | None]]] = {
    "type": _type,
    "x-kubernetes-int-or-string": _int_or_string,
    "format": _format,
    "enum": _enum,
    "minLength": lambda limit, schema: _length(str, least=limit),
    "maxLength": lambda limit, schema: _length(str, most=limit),
    "pattern": _pattern,
    "minItems": lambda limit, schema: _length(list, least=limit),
    "maxItems": lambda limit, schema: _length(list, most=limit),
    "minProperties": lambda limit, schema: _length(dict, least=limit),
    "maxProperties": lambda limit, schema: _length(dict, most=limit),
    "required": _required,
    "x-kubernetes-list-type": _list_type,
}
"""By keyword, a function from its argument and schema to its fast check; None if there is no fast form."""
