"""Random values that conform to a JSON schema, for tool calls and structured output."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

MAX_ITEMS = 100
"""Maximum items of an array, whatever its schema requires."""
DEEPEST = 12
"""Nesting levels beyond which only scalar values are generated."""
WORDS = ("gate", "flow", "lock", "mill", "tide", "pond", "lake", "weir", "rain", "eddy")


INTEGERS = (0, 100)
"""Range where the schema sets no bounds."""
NUMBERS = (0.0, 100.0)
ITEMS = (1, 5)
"""Number of items of an array."""
OPTIONAL_SHARE = 0.5
"""Probability that an object has an optional property."""


def value_of(schema: object, rng: random.Random, depth: int = 0) -> Any:
    """A value for a schema; unspecified values are words. References are not followed."""
    if not isinstance(schema, Mapping):
        return rng.choice(WORDS)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), Sequence) and schema["enum"]:
        return rng.choice(list(schema["enum"]))
    for choice in ("anyOf", "oneOf", "allOf"):
        options = schema.get(choice)
        if isinstance(options, Sequence) and options and depth < DEEPEST:
            return value_of(rng.choice(list(options)), rng, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0] if kind else "string"
    return _of_kind(kind, schema, rng, depth)


def _of_kind(kind: object, schema: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    match kind:
        case "object":
            return _object(schema, rng, depth)
        case "array":
            return _array(schema, rng, depth)
        case "integer":
            low, high = _bounds(schema, *INTEGERS)
            return rng.randint(int(low), int(high))
        case "number":
            return round(rng.uniform(*_bounds(schema, *NUMBERS)), 3)
        case "boolean":
            return rng.random() < 0.5
        case "null":
            return None
        case _:
            return rng.choice(WORDS)


def _object(schema: Mapping[str, Any], rng: random.Random, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if depth >= DEEPEST or not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    return {
        name: value_of(each, rng, depth + 1)
        for name, each in properties.items()
        if name in required or rng.random() < OPTIONAL_SHARE
    }


def _array(schema: Mapping[str, Any], rng: random.Random, depth: int) -> list[Any]:
    if depth >= DEEPEST:
        return []
    least = _count(schema.get("minItems"), ITEMS[0])
    most = max(least, _count(schema.get("maxItems"), max(least, ITEMS[1])))
    return [value_of(schema.get("items"), rng, depth + 1) for _ in range(rng.randint(least, most))]


def _count(value: object, default: int) -> int:
    return min(value, MAX_ITEMS) if isinstance(value, int) and value >= 0 else default


def _bounds(schema: Mapping[str, Any], least: float, most: float) -> tuple[float, float]:
    """The bounds of the schema; a missing one is as far away as in the default range."""
    low, high = schema.get("minimum"), schema.get("maximum")
    low = (
        low
        if isinstance(low, int | float)
        else (min(least, high) if isinstance(high, int | float) else least)
    )
    high = high if isinstance(high, int | float) else (most if most > low else low + 100)
    return low, max(low, high)
