"""Every error is reported, in an order that does not depend on the order of fields, up to a bound."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kubeschema import structural

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "maxLength": 3},
                "unit": {"type": "string", "enum": ["second"], "default": "second"},
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"weight": {"type": "integer", "format": "int32", "maximum": 100}},
                    },
                },
                "headers": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^a"}},
            },
        }
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "unit", "rules", "weight", "headers", "x"]), inner, max_size=5
        )
    ),
    max_leaves=20,
)


def test_each_fault_has_its_own_line() -> None:
    """Nothing hides behind the first error."""
    spec = {"unit": "week", "rules": [{"weight": 101}, {"weight": "x"}], "headers": {"h": "b"}}
    assert [error.message() for error in structural.validate(SCHEMA, {"spec": spec})] == [
        "spec.headers.h: Invalid value: \"b\": spec.headers.h in body should match '^a'",
        "spec.name: Required value",
        "spec.rules[0].weight: Invalid value: 101: "
        "spec.rules[0].weight in body should be less than or equal to 100",
        'spec.rules[1].weight: Invalid value: "string": '
        'spec.rules[1].weight in body must be of type integer: "string"',
        'spec.unit: Unsupported value: "week": supported values: "second"',
    ]


def test_indexes_are_ordered_as_numbers() -> None:
    """rules[2] comes before rules[10]."""
    rules = [{"weight": 101 if index in (2, 10) else 1} for index in range(11)]
    found = structural.validate(SCHEMA, {"spec": {"name": "a", "rules": rules}})
    assert [error.field for error in found] == ["spec.rules[2].weight", "spec.rules[10].weight"]


def test_the_number_of_errors_is_bounded_and_the_list_says_so() -> None:
    """After a hundred errors the search ends, and the last line tells that there are more."""
    found = structural.validate(SCHEMA, {"spec": {"name": "a", "rules": [{"weight": 101}] * 5000}})
    assert len(found) == structural.MAX_ERRORS + 1
    assert found[-1].message() == "<nil>: Invalid value: null: too many errors: only the first 100 are listed"


def test_a_long_value_is_cut_in_the_message() -> None:
    """A message stays readable, and small, whatever was sent."""
    found = structural.validate(SCHEMA, {"spec": {"name": "a", "headers": {"h": "b" * 1_000_000}}})
    assert len(found[0].message()) < 1200


def test_nesting_is_bounded() -> None:
    """A schema may be nested deeply, but an object that follows it further than the bound is refused."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    obj: dict[str, Any] = {}
    inner = obj
    for _ in range(5000):
        inner["a"] = inner = {}
    assert [error.detail.split(" in body ")[1] for error in structural.validate(schema, obj)] == [
        "should not be nested deeper than 100 levels"
    ]


@settings(deadline=None)
@given(JSON)
def test_any_object_is_judged_the_same_whatever_the_order_of_its_fields(spec: Any) -> None:
    """Validation neither fails on any JSON nor depends on the order of keys."""

    def reversed_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return [reversed_keys(item) for item in value] if isinstance(value, list) else value

    found = structural.validate(SCHEMA, {"spec": spec})
    assert structural.validate(SCHEMA, {"spec": reversed_keys(spec)}) == found
    assert all(error.message() for error in found)


@settings(deadline=None)
@given(JSON)
def test_shaping_twice_changes_nothing_more(spec: Any) -> None:
    """Pruned and defaulted objects stay as they are, so that reading back and writing is no change."""
    obj = {"spec": spec}
    structural.prune(SCHEMA, obj)
    structural.default(SCHEMA, obj)
    once = repr(obj)
    assert structural.prune(SCHEMA, obj) == []
    structural.default(SCHEMA, obj)
    assert repr(obj) == once


@pytest.mark.parametrize("depth", [200, 900])
def test_values_without_a_schema_may_be_nested_as_json_allows(depth: int) -> None:
    """Free-form fields are not followed, so their depth is no concern of the schema."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert structural.validate(schema, {"x": value}) == []
