"""What `Prepared` does at a glance is what `prune`, `default` and `validate` do in detail."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate import api
from headgate.kubeschema import structural
from headgate.kubeschema.structural import acceptance, keywords

Schema = dict[str, Any]

NAMES = st.sampled_from(("a", "b", "c", "kind", "metadata"))
ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from((0.5, 2.0, 1 << 40, -(1 << 63) - 1))
    | st.sampled_from(("", "a", "bb", "ccc", "10Gi", "2026-11-22T00:00:00Z")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def flags(*names: str) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, st.booleans()))


SCALARS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("string", "integer", "number", "boolean"))},
        optional={
            "format": st.sampled_from(("int32", "int64", "date-time", "duration", "unheard-of")),
            "minimum": st.integers(-2, 3),
            "maximum": st.integers(2, 9),
            "exclusiveMinimum": st.booleans(),
            "multipleOf": st.sampled_from((1, 2)),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(1, 3),
            "pattern": st.sampled_from(("^[a-z]*$", "a", "(")),
            "enum": st.lists(st.sampled_from(("a", "bb", 1, True, None)), min_size=1, max_size=3),
            "nullable": st.booleans(),
            "default": st.sampled_from(("a", 1, True, None)),
        },
    ),
    st.just({"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+(Gi)?$"}),
    st.just({"x-kubernetes-preserve-unknown-fields": True}),
    st.just({"type": "object"}),
    st.just({}),
)


def composed(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    fields = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2),
            "maxProperties": st.integers(0, 3),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "x-kubernetes-embedded-resource": st.just(True),
            "nullable": st.booleans(),
            "default": st.sampled_from(({}, {"a": 1})),
            "oneOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
            "anyOf": st.just([{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}}]),
        },
    )
    maps = st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": inner | st.booleans()},
        optional={"minProperties": st.integers(0, 2), "nullable": st.booleans()},
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "minItems": st.integers(0, 1),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.just(True),
            "x-kubernetes-list-type": st.sampled_from(("atomic", "set", "map")),
            "x-kubernetes-list-map-keys": st.just(["a"]),
            "nullable": st.booleans(),
            "default": st.just([]),
        },
    )
    return fields | maps | lists


SCHEMAS = st.recursive(SCALARS, composed, max_leaves=5)
ROOTS = st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=3).map(
    lambda properties: {"type": "object", "properties": properties}
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, dict[str, Any]]:
    """A schema and an object that mostly fits it."""
    schema = draw(ROOTS)
    return schema, draw(_object_for(schema))


def _object_for(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    known = {name: _value_for(child) for name, child in schema["properties"].items()}
    return st.fixed_dictionaries({}, optional={"unknown": st.just(1), **known})


def _value_for(schema: Schema) -> st.SearchStrategy[Any]:
    fitting: st.SearchStrategy[Any] = ANY_VALUE
    match schema.get("type"):
        case "string":
            fitting = st.sampled_from(("", "a", "bb", "ccc"))
        case "integer":
            fitting = st.integers(-3, 10)
        case "boolean":
            fitting = st.booleans()
        case "object" if "properties" in schema:
            fitting = _object_for(schema)
        case "object":
            inner = schema.get("additionalProperties")
            values = _value_for(inner) if isinstance(inner, dict) else ANY_VALUE
            fitting = st.dictionaries(NAMES, values, max_size=3)
        case "array":
            fitting = st.lists(_value_for(schema["items"]), max_size=4)
    return st.one_of(fitting, fitting, fitting, ANY_VALUE)


def in_detail(schema: Schema, obj: dict[str, Any]) -> tuple[list[str], dict[str, Any], list[Any]]:
    unknown = structural.prune(schema, obj)
    structural.default(schema, obj)
    return unknown, obj, structural.validate(schema, obj)


def at_a_glance(schema: Schema, obj: dict[str, Any]) -> tuple[list[str], dict[str, Any], list[Any]]:
    prepared = structural.Prepared(schema)
    unknown, lacking = prepared.prune(obj)
    lacking.fill(obj)
    return unknown, obj, prepared.validate(obj)


@settings(max_examples=150)
@given(cases())
@example(({"type": "object", "properties": {"a": {"type": "integer", "enum": [True]}}}, {"a": 1}))
@example(
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"nullable": True}}}}, {"a": [None]})
)
def test_both_do_the_same_to_any_object(case: tuple[Schema, dict[str, Any]]) -> None:
    """What goes, what comes, the order of fields, and every error: for any schema and object."""
    schema, obj = case
    expected = in_detail(schema, copy.deepcopy(obj))
    found = at_a_glance(schema, copy.deepcopy(obj))
    assert found == expected
    assert repr(found[1]) == repr(expected[1])


@pytest.mark.parametrize("keyword", sorted(acceptance.CHECKS))
def test_every_keyword_is_asked(keyword: str) -> None:
    """A keyword that has no quick form is asked through its check: this table has a refusal for each one."""
    schema, refused = REFUSED[keyword]
    root = {"type": "object", "properties": {"a": schema}}
    assert (
        structural.Prepared(root).validate({"a": refused}) == structural.validate(root, {"a": refused}) != []
    )


REFUSED: dict[str, tuple[Schema, Any]] = {
    "type": ({"type": "string"}, 1),
    "x-kubernetes-int-or-string": ({"x-kubernetes-int-or-string": True}, True),
    "format": ({"type": "string", "format": "date"}, "today"),
    "enum": ({"enum": ["a"]}, "b"),
    "minimum": ({"type": "integer", "minimum": 1}, 0),
    "maximum": ({"type": "integer", "maximum": 1}, 2),
    "multipleOf": ({"type": "integer", "multipleOf": 2}, 3),
    "minLength": ({"minLength": 1}, ""),
    "maxLength": ({"maxLength": 1}, "ab"),
    "pattern": ({"pattern": "^a$"}, "b"),
    "minItems": ({"minItems": 1}, []),
    "maxItems": ({"maxItems": 1}, [1, 2]),
    "minProperties": ({"minProperties": 1}, {}),
    "maxProperties": ({"maxProperties": 1}, {"a": 1, "b": 1}),
    "uniqueItems": ({"uniqueItems": True}, [1, 1]),
    "required": ({"required": ["b"]}, {}),
    "x-kubernetes-embedded-resource": ({"x-kubernetes-embedded-resource": True}, {"kind": "A"}),
    "x-kubernetes-list-type": ({"x-kubernetes-list-type": "set"}, [1, 1]),
    "allOf": ({"allOf": [{"enum": ["a"]}]}, "b"),
    "anyOf": ({"anyOf": [{"enum": ["a"]}]}, "b"),
    "oneOf": ({"oneOf": [{"enum": ["a"]}]}, "b"),
    "not": ({"not": {"enum": ["a"]}}, "a"),
}


def test_all_keywords_have_a_row() -> None:
    """The table above grows with the keywords."""
    assert REFUSED.keys() == acceptance.CHECKS.keys() >= keywords.KEYWORDS.keys()


def test_broken_rules_are_found_in_what_passed_at_a_glance() -> None:
    """CEL rules are asked of an object whose shape is right, with its past."""
    rule = {"rule": "self.a == oldSelf.a", "message": "must not change"}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [rule],
    }
    prepared = structural.Prepared(schema)
    assert prepared.validate({"a": "x"}) == []
    assert prepared.validate({"a": "x"}, {"a": "x"}) == []
    assert (
        prepared.validate({"a": "x"}, {"a": "y"}) == structural.validate(schema, {"a": "x"}, {"a": "y"}) != []
    )


def test_kinds_that_we_serve_pass_at_a_glance() -> None:
    """An ordinary Deployment is nothing unusual: the quick way is taken."""
    definition = next(
        each for each in api.builtin_definitions() if each["spec"]["names"]["kind"] == "Deployment"
    )
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    container = {
        "name": "a",
        "image": "b",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "b"}],
    }
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}},
    }
    obj = {"spec": spec}
    prepared = structural.Prepared(schema)
    fills: list[Any] = []
    assert prepared._look(obj, fills)
    prepared.prune(obj)[1].fill(obj)
    assert prepared._glance(obj)
