"""A schema that could not judge is refused when its CustomResourceDefinition is registered."""

from typing import Any

import pytest

from headgate import api
from headgate.kubeschema import structural

FIELD = "spec.versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("faulty", "expected"),
    [
        (
            {"type": "strnig"},
            'type: Unsupported value: "strnig": supported values: '
            '"array", "boolean", "integer", "number", "object", "string"',
        ),
        (
            {"type": "string", "pattern": "a["},
            'pattern: Invalid value: "a[": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: missing ]: [",
        ),
        (
            {"type": "string", "pattern": "(?=a)"},
            'pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: invalid perl operator: (?=",
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "foo(self)"}]},
            'x-kubernetes-validations[0].rule: Invalid value: "foo(self)": '
            "compilation failed: undeclared reference to 'foo' (in container '')",
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "slef.a == 1"}]},
            'x-kubernetes-validations[0].rule: Invalid value: "slef.a == 1": '
            "compilation failed: undeclared reference to 'slef' (in container '')",
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": " "}]},
            "x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
    ],
)
def test_a_faulty_schema_is_refused_where_the_fault_is(faulty: dict[str, Any], expected: str) -> None:
    """The path leads through the schema to the keyword."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": faulty}}}
    assert [error.message() for error in structural.check(schema, FIELD)] == [
        f"{FIELD}.properties[a].items.{expected}"
    ]


def test_a_rule_that_does_not_parse_is_refused() -> None:
    """Syntax errors of the engine are passed on, on one line."""
    rules = [{"rule": "self."}, {"rule": "self == self"}]
    schema = {"type": "object", "x-kubernetes-validations": rules}
    (fault,) = structural.check(schema)
    assert fault.field == "x-kubernetes-validations[0].rule"
    assert "Syntax error" in fault.detail
    assert "\n" not in fault.detail


def test_nesting_without_end_is_refused() -> None:
    """A schema inside itself is found by its depth."""
    schema: dict[str, Any] = {"type": "object"}
    schema["items"] = schema
    assert [error.detail for error in structural.check(schema)] == [
        "must not be nested deeper than 100 levels"
    ]


def test_our_own_definitions_are_sound() -> None:
    """Every schema that Headgate brings passes the check."""
    for definition in api.custom_definitions() + api.builtin_definitions():
        for version in definition["spec"]["versions"]:
            assert structural.check(version["schema"]["openAPIV3Schema"]) == [], definition["metadata"][
                "name"
            ]
