"""Defaults apply where a field is absent, at every level that exists."""

from typing import Any

import pytest

from headgate.kubeschema import structural

UNIT = {"type": "string", "default": "second"}


@pytest.mark.parametrize(
    ("schema", "before", "after"),
    [
        ({"properties": {"a": UNIT}}, {}, {"a": "second"}),
        ({"properties": {"a": UNIT}}, {"a": "day"}, {"a": "day"}),
        ({"properties": {"a": {"type": "object", "properties": {"b": UNIT}}}}, {}, {}),
        (
            {"properties": {"a": {"type": "object", "properties": {"b": UNIT}}}},
            {"a": {}},
            {"a": {"b": "second"}},
        ),
        (
            {"properties": {"a": {"type": "object", "default": {}, "properties": {"b": UNIT}}}},
            {},
            {"a": {"b": "second"}},
        ),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": UNIT}}}}},
            {"a": [{}, {"b": "day"}]},
            {"a": [{"b": "second"}, {"b": "day"}]},
        ),
        (
            {"additionalProperties": {"type": "object", "properties": {"b": UNIT}}},
            {"x": {}, "y": {"b": "day"}},
            {"x": {"b": "second"}, "y": {"b": "day"}},
        ),
        ({"properties": {"a": {"type": "boolean", "default": False}}}, {}, {"a": False}),
    ],
)
def test_a_default_applies_where_its_parent_exists(
    schema: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    """A missing field takes its default; a missing object needs one of its own to get those of its fields."""
    structural.default(schema, before)
    assert before == after


@pytest.mark.parametrize(
    ("field", "after"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "default": "x"}, {"a": "x"}),
        ({"type": "string", "nullable": True}, {"a": None}),
        ({"type": "string", "nullable": True, "default": "x"}, {"a": None}),
    ],
)
def test_null_counts_as_absent_unless_the_field_is_nullable(
    field: dict[str, Any], after: dict[str, Any]
) -> None:
    """Null is dropped, then defaulted; a nullable field keeps it, default or not."""
    obj = {"a": None}
    structural.default({"properties": {"a": field}}, obj)
    assert obj == after


def test_null_in_a_list_takes_the_default_of_items_or_stays_to_be_refused() -> None:
    """Dropping an item would move the others, so validation gets to see it."""
    with_default = {"properties": {"a": {"type": "array", "items": {"type": "string", "default": "x"}}}}
    obj = {"a": ["y", None]}
    structural.default(with_default, obj)
    assert obj == {"a": ["y", "x"]}
    without = {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    obj = {"a": ["y", None]}
    structural.default(without, obj)
    assert obj == {"a": ["y", None]}
    assert [error.message() for error in structural.validate(without, obj)] == [
        'a[1]: Invalid value: "null": a[1] in body must be of type string: "null"'
    ]


def test_objects_never_share_a_default() -> None:
    """Each object gets a copy, so that changing one does not change the schema or another."""
    schema = {"properties": {"a": {"type": "array", "default": []}}}
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    structural.default(schema, first)
    first["a"].append(1)
    structural.default(schema, second)
    assert second == {"a": []}
