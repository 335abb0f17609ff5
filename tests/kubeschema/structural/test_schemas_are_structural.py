"""What Kubernetes refuses in the schema of a CustomResourceDefinition, at the same fields, in its words."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.kubeschema import structural

Object = dict[str, Any]

TEXT: Object = {"type": "string"}
NAMED: Object = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
BY_NAME: Object = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ANYTHING: Object = {"x-kubernetes-preserve-unknown-fields": True}


def faults(schema: Object) -> list[str]:
    """Of a schema for the field a."""
    root = {"type": "object", "properties": {"a": schema}}
    return [error.message().removeprefix("properties[a].") for error in structural.check(root)]


@pytest.mark.parametrize(
    "schema",
    [
        TEXT | {"nullable": True, "default": "x", "enum": ["x", None]},
        ANYTHING,
        {"type": "object", **ANYTHING, "x-kubernetes-map-type": "atomic"},
        {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "granular"},
        {"type": "object", "properties": {"b": TEXT}, "additionalProperties": True},
        {"x-kubernetes-int-or-string": True},
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+$",
        },
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}],
        },
        {"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING},
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        {"type": "array", "items": {"type": "array", "items": TEXT}, "x-kubernetes-list-type": "set"},
        BY_NAME | {"items": NAMED},
        BY_NAME | {"items": {"type": "object", "properties": {"name": TEXT | {"default": "x"}}}},
        {
            "type": "object",
            "properties": {"b": TEXT, "c": {"type": "array", "items": TEXT}},
            "oneOf": [{"required": ["b"]}, {"properties": {"c": {"items": {"minLength": 1}}}}],
            "not": {"required": ["b", "c"]},
        },
        {"type": "object", "properties": {"b": {"type": "integer", "minimum": 1}}, "default": {"b": 1}},
    ],
)
def test_a_structural_schema_is_taken(schema: Object) -> None:
    """With every extension of Kubernetes, used as it is meant."""
    assert faults(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"minLength": 1}, ["type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, ["items: Required value: must be specified"]),
        (
            {"type": "array", "items": {}},
            ["items.type: Required value: must not be empty for specified array items"],
        ),
        (
            {"type": "array", "items": [TEXT]},
            ["items: Forbidden: items must be a schema object and not an array"],
        ),
        ({"type": "null"}, ["type: Forbidden: type cannot be set to null, use nullable as an alternative"]),
        ({"type": "object", "$ref": "#/x"}, ["$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "object", "patternProperties": {"x": TEXT}},
            ["patternProperties: Forbidden: patternProperties is not supported"],
        ),
        (
            {"type": "array", "items": TEXT, "uniqueItems": True},
            [
                "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
                "becomes quadratic"
            ],
        ),
        (
            {"type": "object", "properties": {"b": TEXT}, "additionalProperties": False},
            ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ["x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            [
                "x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true"
            ],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            ],
        ),
        (
            ANYTHING | {"x-kubernetes-embedded-resource": True},
            ["type: Required value: must be object if x-kubernetes-embedded-resource is true"],
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-map-type": "atomic"},
            ['type: Invalid value: "array": must be object if x-kubernetes-map-type is specified'],
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "loose"},
            ['x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"'],
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: Object, expected: list[str]) -> None:
    """Each fault at its keyword."""
    assert faults(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            TEXT | {"x-kubernetes-list-type": "set"},
            ['type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'],
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"},
            ['x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
        ),
        (
            {"type": "array", "items": NAMED, "x-kubernetes-list-map-keys": ["name"]},
            [
                "x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is "
                "non-empty"
            ],
        ),
        (
            {"type": "array", "items": NAMED, "x-kubernetes-list-type": "map"},
            [
                "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is "
                "map"
            ],
        ),
        (
            {"type": "array", "items": NAMED, "x-kubernetes-list-type": "set"},
            [
                "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
                "x-kubernetes-list-type=set"
            ],
        ),
        (
            {"type": "array", "items": TEXT | {"nullable": True}, "x-kubernetes-list-type": "set"},
            ["items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"],
        ),
        (
            BY_NAME | {"items": TEXT},
            [
                'items.type: Invalid value: "string": must be object if parent array\'s '
                "x-kubernetes-list-type is map"
            ],
        ),
        (
            BY_NAME | {"items": {"type": "object", "properties": {"id": TEXT}}},
            [
                'x-kubernetes-list-map-keys: Invalid value: ["name"]: entries must all be names of item '
                "properties"
            ],
        ),
        (
            BY_NAME | {"items": NAMED, "x-kubernetes-list-map-keys": ["name", "name"]},
            [
                'x-kubernetes-list-map-keys: Invalid value: ["name","name"]: must not contain duplicate '
                "entries"
            ],
        ),
        (
            BY_NAME | {"items": {"type": "object", "properties": {"name": TEXT}}},
            [
                "items.properties[name].default: Required value: this property is in "
                "x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ],
        ),
    ],
)
def test_list_types_need_what_they_are_about(schema: Object, expected: list[str]) -> None:
    """Server-side apply finds items by their keys, so each item must have them."""
    assert faults(schema) == expected


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ({"type": "object"}, "anyOf[0].type: Forbidden: must be empty to be structural"),
        ({"description": "x"}, "anyOf[0].description: Forbidden: must be empty to be structural"),
        ({"nullable": True}, "anyOf[0].nullable: Forbidden: must be false to be structural"),
        ({"default": {}}, "anyOf[0].default: Forbidden: must be undefined to be structural"),
        (ANYTHING, f"anyOf[0].{next(iter(ANYTHING))}: Forbidden: must be false to be structural"),
        (
            {"x-kubernetes-validations": [{"rule": "true"}]},
            "anyOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
        ),
        (
            {"properties": {"c": {"minimum": 1}}},
            "properties[c]: Required value: because it is defined in properties[a].anyOf[0].properties[c]",
        ),
        (
            {"not": {"properties": {"b": {"items": {}}}}},
            "properties[b].items: Required value: because it is defined in "
            "properties[a].anyOf[0].not.properties[b].items",
        ),
    ],
)
def test_alternatives_judge_and_do_not_shape(branch: Object, expected: str) -> None:
    """A server prunes and defaults before it knows which alternative holds."""
    assert faults({"type": "object", "properties": {"b": TEXT}, "anyOf": [branch]}) == [expected]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT | {"default": 3}, "default: Invalid value"),
        (TEXT | {"enum": ["x"], "default": "y"}, "default: Unsupported value"),
        ({"type": "array", "items": {"type": "integer"}, "default": [1, "x"]}, "default[1]: Invalid value"),
        ({"type": "object", "default": {"b": 1}}, "default: Invalid value"),
        (
            TEXT | {"default": "x", "x-kubernetes-validations": [{"rule": "self == 'y'", "message": "no"}]},
            "default: Invalid value",
        ),
    ],
)
def test_a_default_must_satisfy_its_own_schema(schema: Object, expected: str) -> None:
    """Otherwise every object without the field would be refused."""
    (fault,) = faults(schema)
    assert fault.startswith(expected)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"metadata": {"type": "object", "properties": {"name": TEXT | {"maxLength": 9}}}}, []),
        (
            {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            [
                "properties[metadata]: Forbidden: must not specify anything other than name and "
                "generateName, but metadata is implicitly specified"
            ],
        ),
        (
            {"kind": TEXT | {"default": "Thing"}},
            ["properties[kind].default: Forbidden: must not be set in top-level kind"],
        ),
        (
            {"metadata": TEXT},
            ['properties[metadata].type: Invalid value: "string": must be object'],
        ),
    ],
)
def test_metadata_is_not_the_schemas_to_say(properties: Object, expected: list[str]) -> None:
    """Only the length and form of the name may be."""
    found = structural.check({"type": "object", "properties": properties})
    assert [error.message() for error in found] == expected


def with_rule(place: Object, **rule: Any) -> Object:
    return place | {"x-kubernetes-validations": [{"rule": "self == self", **rule}]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (with_rule(TEXT, rule="self == oldSelf"), []),
        (with_rule(TEXT, rule="!oldSelf.hasValue()", optionalOldSelf=True), []),
        (
            with_rule(TEXT, optionalOldSelf=True),
            [
                "x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf "
                "is not used in rule"
            ],
        ),
        (
            {"type": "array", "items": with_rule(TEXT, rule="self == oldSelf")},
            [
                'items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be '
                "used on the uncorrelatable portion of the schema within properties[a]"
            ],
        ),
        (BY_NAME | {"items": with_rule(NAMED, rule="self == oldSelf")}, []),
        (
            {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {"b": with_rule(TEXT, rule="self == oldSelf")},
            },
            [
                "properties[b].x-kubernetes-validations[0].rule: Invalid value: "
                '"self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema '
                "within properties[a]"
            ],
        ),
        (
            with_rule(TEXT, message=" "),
            [
                'x-kubernetes-validations[0].message: Invalid value: " ": message must be non-empty if '
                "specified"
            ],
        ),
        (
            with_rule(TEXT, rule="self ==\n  self"),
            [
                "x-kubernetes-validations[0].message: Required value: message must be specified if rule "
                "contains line breaks"
            ],
        ),
        (with_rule(NAMED, fieldPath=".name"), []),
        (with_rule({"type": "object", "properties": {"b.c": NAMED}}, fieldPath="['b.c'].name"), []),
        (
            with_rule(NAMED, fieldPath=".nmae"),
            ['x-kubernetes-validations[0].fieldPath: Invalid value: ".nmae": fieldPath must be a valid path'],
        ),
    ],
)
def test_rules_say_all_that_they_need(schema: Object, expected: list[str]) -> None:
    """And compare with the past only where there is one to be found."""
    assert faults(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": 3}, "type: Invalid value: 3: must be a string"),
        (TEXT | {"maxLength": "3"}, 'maxLength: Invalid value: "3": must be an integer'),
        (TEXT | {"required": "b"}, 'required: Invalid value: "b": must be a list of strings'),
        (TEXT | {"properties": []}, "properties: Invalid value: []: must be a map of schemas"),
        (TEXT | {"properties": {"b": 1}}, "properties.b: Invalid value: 1: must be a schema"),
        (TEXT | {"allOf": [None]}, "allOf[0]: Invalid value: null: must be a schema"),
        (TEXT | {"enum": "x"}, 'enum: Invalid value: "x": must be a list'),
        (TEXT | {"pattern": ["x"]}, 'pattern: Invalid value: ["x"]: must be a string'),
    ],
)
def test_a_keyword_with_the_wrong_argument_is_named(schema: Object, expected: str) -> None:
    """No check should meet a limit that is text."""
    assert faults(schema) == [expected]


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["object", "array", "self", "a", "map"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "items", "properties", "additionalProperties", "anyOf", "not", "default"),
                    *("required", "enum", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
                    *("x-kubernetes-validations", "rule", "a", "pattern", "minLength", "metadata"),
                    "x-kubernetes-embedded-resource",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "default", "enum"]), junk), junk
)
@example({"type": "object", "properties": None}, [])
@example({"type": "object", "properties": {"a": {"type": "object", "properties": None}}}, {"a": [{"a": []}]})
@example({"type": "object", "properties": {"a": {"type": "object", "items": None}}}, [{"a": 1}])
def test_no_schema_breaks_the_server(schema: Object, value: Any) -> None:
    """Whatever arrives as a schema is refused with reasons, or shapes and judges any value."""
    if not structural.check(schema):
        structural.validate(schema, {"a": value}, {"a": value})
        prepared, obj = structural.Prepared(schema), {"a": copy.deepcopy(value)}
        _, lacking = prepared.prune(obj)
        lacking.fill(obj)
        prepared.validate(obj, obj)
        structural.prune(schema, value := {"a": value})
        structural.default(schema, value)
        assert obj == value
