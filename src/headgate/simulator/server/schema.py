"""Values that fit a JSON schema, made up from a seeded generator: for tool calls and structured answers."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

MAX_ITEMS = 100
"""Of an array, whatever its schema wants."""
DEEPEST = 12
"""Levels beyond which only values without parts are made."""
WORDS = ("gate", "flow", "lock", "mill", "tide", "pond", "lake", "weir", "rain", "eddy")


class MadeUp(msgspec.Struct, frozen=True, kw_only=True):
    """How values are made up where their schema leaves it open, and how many tools are called."""

    least_integer: int = 0
    most_integer: int = 100
    least_number: float = 0.0
    most_number: float = 100.0
    least_items: int = 1
    """Of an array."""
    most_items: int = 5
    optional_parameter_share: float = 0.5
    """How likely a tool is called with a parameter that is not required."""
    optional_field_share: float = 0.5
    """How likely an object within has a property that is not required."""
    further_call_share: float = 0.45
    """How likely one more tool is called, after each."""

    def problems(self) -> Iterator[str]:
        """What is wrong with these."""
        for least, most in (
            ("least_integer", "most_integer"),
            ("least_number", "most_number"),
            ("least_items", "most_items"),
        ):
            if not getattr(self, least) <= getattr(self, most):
                told = f"{getattr(self, least)} and {getattr(self, most)}"
                yield f"made_up.{least}: must not be more than {most}, got {told}"
        if not 0 <= self.least_items <= MAX_ITEMS or self.most_items > MAX_ITEMS:
            yield f"made_up.most_items: arrays have 0 to {MAX_ITEMS} items, got {self.most_items}"
        for name in ("optional_parameter_share", "optional_field_share", "further_call_share"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"made_up.{name}: must be 0 to 1, got {getattr(self, name)}"


def value_of(schema: object, rng: random.Random, made_up: MadeUp, depth: int = 0) -> Any:
    """A value for a schema; what the schema leaves open is a word. References are not followed."""
    if not isinstance(schema, Mapping):
        return rng.choice(WORDS)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), Sequence) and schema["enum"]:
        return rng.choice(list(schema["enum"]))
    for choice in ("anyOf", "oneOf", "allOf"):
        options = schema.get(choice)
        if isinstance(options, Sequence) and options and depth < DEEPEST:
            return value_of(rng.choice(list(options)), rng, made_up, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0] if kind else "string"
    return _of_kind(kind, schema, rng, made_up, depth)


def _of_kind(kind: object, schema: Mapping[str, Any], rng: random.Random, made_up: MadeUp, depth: int) -> Any:
    match kind:
        case "object":
            return _object(schema, rng, made_up, depth)
        case "array":
            return _array(schema, rng, made_up, depth)
        case "integer":
            low, high = _bounds(schema, made_up.least_integer, made_up.most_integer)
            return rng.randint(int(low), int(high))
        case "number":
            return round(rng.uniform(*_bounds(schema, made_up.least_number, made_up.most_number)), 3)
        case "boolean":
            return rng.random() < 0.5
        case "null":
            return None
        case _:
            return rng.choice(WORDS)


def _object(schema: Mapping[str, Any], rng: random.Random, made_up: MadeUp, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if depth >= DEEPEST or not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    share = made_up.optional_field_share if depth else made_up.optional_parameter_share
    return {
        name: value_of(each, rng, made_up, depth + 1)
        for name, each in properties.items()
        if name in required or rng.random() < share
    }


def _array(schema: Mapping[str, Any], rng: random.Random, made_up: MadeUp, depth: int) -> list[Any]:
    if depth >= DEEPEST:
        return []
    least = _count(schema.get("minItems"), made_up.least_items)
    most = max(least, _count(schema.get("maxItems"), max(least, made_up.most_items)))
    return [value_of(schema.get("items"), rng, made_up, depth + 1) for _ in range(rng.randint(least, most))]


def _count(value: object, default: int) -> int:
    return min(value, MAX_ITEMS) if isinstance(value, int) and value >= 0 else default


def _bounds(schema: Mapping[str, Any], least: float, most: float) -> tuple[float, float]:
    """Those of the schema; what it leaves open is as far away as usual."""
    low, high = schema.get("minimum"), schema.get("maximum")
    low = (
        low
        if isinstance(low, int | float)
        else (min(least, high) if isinstance(high, int | float) else least)
    )
    high = high if isinstance(high, int | float) else (most if most > low else low + 100)
    return low, max(low, high)
