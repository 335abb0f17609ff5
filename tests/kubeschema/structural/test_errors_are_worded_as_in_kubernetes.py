"""One error each, in the words of kube-apiserver."""

from typing import Any

import pytest

from headgate.kubeschema import structural

CASES: list[tuple[dict[str, Any], Any, str]] = [
    # types
    ({"type": "integer"}, "string", 'Invalid value: "string": {f} in body must be of type integer: "string"'),
    ({"type": "integer"}, 1.5, 'Invalid value: "number": {f} in body must be of type integer: "number"'),
    (
        {"type": "integer", "format": "int32"},
        33.33,
        'Invalid value: "float64": {f} in body must be of type int32: "float64"',
    ),
    ({"type": "integer"}, True, 'Invalid value: "boolean": {f} in body must be of type integer: "boolean"'),
    ({"type": "boolean"}, 1, 'Invalid value: "integer": {f} in body must be of type boolean: "integer"'),
    ({"type": "string"}, [], 'Invalid value: "array": {f} in body must be of type string: "array"'),
    ({"type": "string"}, None, 'Invalid value: "null": {f} in body must be of type string: "null"'),
    ({"type": "object"}, "x", 'Invalid value: "string": {f} in body must be of type object: "string"'),
    ({"type": "array"}, {}, 'Invalid value: "object": {f} in body must be of type array: "object"'),
    (
        {"x-kubernetes-int-or-string": True},
        True,
        'Invalid value: "boolean": {f} in body must be of type integer,string: "boolean"',
    ),
    # formats
    (
        {"type": "string", "format": "date-time"},
        "yesterday",
        'Invalid value: "yesterday": {f} in body must be of type date-time: "yesterday"',
    ),
    (
        {"type": "string", "format": "duration"},
        "1d",
        'Invalid value: "1d": {f} in body must be of type duration: "1d"',
    ),
    (
        {"type": "string", "format": "byte"},
        "a b",
        'Invalid value: "a b": {f} in body must be of type byte: "a b"',
    ),
    (
        {"type": "integer", "format": "int32"},
        2**31,
        "Invalid value: 2147483648: Checked value must be of type integer with format int32",
    ),
    (
        {"type": "integer"},
        2**63,
        "Invalid value: 9223372036854775808: Checked value must be of type integer (default format)",
    ),
    # values
    (
        {"type": "string", "enum": ["second", "minute"]},
        "week",
        'Unsupported value: "week": supported values: "second", "minute"',
    ),
    ({"type": "integer", "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
    (
        {"type": "integer", "maximum": 65535},
        70000,
        "Invalid value: 70000: {f} in body should be less than or equal to 65535",
    ),
    (
        {"type": "integer", "minimum": 1},
        0,
        "Invalid value: 0: {f} in body should be greater than or equal to 1",
    ),
    (
        {"type": "number", "minimum": 1, "exclusiveMinimum": True},
        1.0,
        "Invalid value: 1: {f} in body should be greater than 1",
    ),
    (
        {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
        5,
        "Invalid value: 5: {f} in body should be less than 5",
    ),
    (
        {"type": "number", "maximum": 1000000},
        2500000.5,
        "Invalid value: 2.5000005e+06: {f} in body should be less than or equal to 1e+06",
    ),
    (
        {"type": "number", "maximum": 0},
        0.5,
        "Invalid value: 0.5: {f} in body should be less than or equal to 0",
    ),
    ({"type": "integer", "multipleOf": 5}, 7, "Invalid value: 7: {f} in body should be a multiple of 5"),
    # strings
    ({"type": "string", "maxLength": 256}, "a" * 257, "Too long: may not be more than 256 bytes"),
    (
        {"type": "string", "minLength": 1},
        "",
        'Invalid value: "": {f} in body should be at least 1 chars long',
    ),
    (
        {"type": "string", "pattern": "^[a-z]+$"},
        "A\n\x01",
        "Invalid value: \"A\\n\\x01\": {f} in body should match '^[a-z]+$'",
    ),
    # lists and maps
    ({"type": "array", "maxItems": 16}, [1] * 17, "Too many: 17: must have at most 16 items"),
    ({"type": "array", "maxItems": 1}, [1] * 2, "Too many: 2: must have at most 1 item"),
    ({"type": "array", "minItems": 1}, [], "Invalid value: 0: {f} in body should have at least 1 items"),
    ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "Too many: 2: must have at most 1 item"),
    (
        {"type": "object", "minProperties": 1},
        {},
        "Invalid value: 0: {f} in body should have at least 1 properties",
    ),
    (
        {"type": "array", "uniqueItems": True},
        [1, 2, 1],
        'Invalid value: "": {f} in body shouldn\'t contain duplicates',
    ),
    # combinations
    (
        {"anyOf": [{"type": "integer"}]},
        1.5,
        'Invalid value: "": "{f}" must validate at least one schema (anyOf)',
    ),
    (
        {"oneOf": [{"minimum": 0}, {"maximum": 9}]},
        5,
        'Invalid value: "": "{f}" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ),
    ({"not": {"enum": ["x"]}}, "x", 'Invalid value: "": "{f}" must not validate the schema (not)'),
]


@pytest.mark.parametrize(("field", "value", "expected"), CASES, ids=lambda value: str(value)[:40])
def test_one_wrong_value_gives_this_message(field: dict[str, Any], value: Any, expected: str) -> None:
    """The first line for the field is kube-apiserver's, with the path in front."""
    schema = {"properties": {"spec": {"type": "object", "properties": {"x": field}}}}
    found = structural.validate(schema, {"spec": {"x": value}})
    assert found[0].field == "spec.x"
    assert found[0].message() == "spec.x: " + expected.replace("{f}", "spec.x")


def test_a_missing_required_field_is_named_where_it_is_missing() -> None:
    """In lists the index is part of the path; at the root the path is the name."""
    schema = {
        "required": ["spec"],
        "properties": {
            "spec": {
                "properties": {"rules": {"type": "array", "items": {"required": ["name"], "type": "object"}}}
            }
        },
    }
    assert [error.message() for error in structural.validate(schema, {})] == ["spec: Required value"]
    found = structural.validate(schema, {"spec": {"rules": [{"name": "a"}, {}]}})
    assert [error.message() for error in found] == ["spec.rules[1].name: Required value"]
    assert found[0].reason == "FieldValueRequired"


def test_a_key_of_a_map_is_a_step_of_the_path() -> None:
    """Schema errors join map keys by dots, as kube-openapi does."""
    exact = {"type": "object", "properties": {"exact": {"type": "string"}}}
    schema = {"properties": {"headers": {"type": "object", "additionalProperties": exact}}}
    found = structural.validate(schema, {"headers": {"x-user": {"exact": 3}}})
    assert found[0].field == "headers.x-user.exact"


def test_an_embedded_resource_says_what_it_is() -> None:
    """apiVersion and kind are required inside x-kubernetes-embedded-resource."""
    schema = {"properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    assert [error.message() for error in structural.validate(schema, {"t": {"kind": "Pod"}})] == [
        "t.apiVersion: Required value: must not be empty"
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "integer", "format": "int32"}, 1.0),
        ({"type": "number"}, 1),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "80%"),
        ({"x-kubernetes-int-or-string": True}, 80),
        ({"type": "string", "maxLength": 3}, "\u00e9\u00e9\u00e9"),
        ({"type": "string", "pattern": "b"}, "abc"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T23:59:59.123456Z"),
        ({"type": "string", "format": "date-time"}, "2026-01-31t23:59:59+02:00"),
        ({"type": "string", "format": "duration"}, "1h30m"),
        ({"type": "string", "format": "byte"}, "aGVhZA=="),
        ({"type": "string", "format": "of my own"}, "anything"),
        ({"type": "string", "minimum": 5}, "not a number"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x"),
        ({"oneOf": [{"maximum": 0}, {"minimum": 1}]}, 5),
        ({"allOf": [{"maximum": 9}, {"minimum": 1}]}, 5),
        ({"not": {"enum": ["x"]}}, "y"),
    ],
)
def test_a_right_value_passes(field: dict[str, Any], value: Any) -> None:
    """What kube-apiserver accepts is accepted: 1.0 is an integer, lengths count code points."""
    assert structural.validate({"properties": {"x": field}}, {"x": value}) == []


@pytest.mark.parametrize(
    "text",
    ["2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00", "20260101T000000Z"],
)
def test_a_time_that_is_none_is_refused(text: str) -> None:
    """date-time is RFC 3339 with a zone, on a day that exists."""
    schema = {"properties": {"x": {"type": "string", "format": "date-time"}}}
    assert len(structural.validate(schema, {"x": text})) == 1
