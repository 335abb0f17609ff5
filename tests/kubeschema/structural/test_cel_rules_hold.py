"""x-kubernetes-validations: rules over self and oldSelf, and what they report."""

from typing import Any

import pytest

from headgate.kubeschema import structural
from headgate.kubeschema.structural import rules


def spec_with(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def messages(schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    found = structural.validate(schema, {"spec": spec}, None if old is None else {"spec": old})
    return [error.message() for error in found]


STRING = {"type": "string"}
EITHER = {"rule": "has(self.a) != has(self.b)", "message": "exactly one of a and b must be set"}


def test_a_rule_that_does_not_hold_reports_its_message() -> None:
    """Absent optional fields are seen by has(); the whole object is not printed."""
    schema = spec_with(EITHER, a=STRING, b=STRING)
    assert messages(schema, {"a": "x"}) == []
    assert messages(schema, {}) == ["spec: Invalid value: exactly one of a and b must be set"]


def test_a_rule_about_the_whole_object_has_no_field() -> None:
    """Kubernetes prints <nil> where a path would stand."""
    rule = {"rule": "has(self.spec)", "message": "empty"}
    schema = {"type": "object", "properties": {"spec": STRING}, "x-kubernetes-validations": [rule]}
    assert [error.message() for error in structural.validate(schema, {})] == ["<nil>: Invalid value: empty"]


def test_a_rule_without_a_message_is_printed_itself() -> None:
    """The reader sees at least what was asked."""
    schema = spec_with(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]})
    assert messages(schema, {"a": 3}) == ["spec.a: Invalid value: 3: failed rule: self % 2 == 0"]


def test_a_message_may_be_computed() -> None:
    """messageExpression goes before message, and message stands in when it fails."""
    rule = {"rule": "self.a > 5", "messageExpression": "'a is ' + string(self.a)", "message": "too small"}
    assert messages(spec_with(rule, a={"type": "integer"}), {"a": 3}) == ["spec: Invalid value: a is 3"]
    failing = rule | {"messageExpression": "'b is ' + string(self.b)"}
    assert messages(spec_with(failing, a={"type": "integer"}), {"a": 3}) == ["spec: Invalid value: too small"]


def test_reason_and_field_path_are_honoured() -> None:
    """A rule can point at one field and say what kind of fault it is."""
    rule = {"rule": "has(self.a)", "message": "set a", "reason": "FieldValueRequired", "fieldPath": ".a"}
    found = structural.validate(spec_with(rule, a=STRING), {"spec": {}})
    assert [(error.reason, error.message()) for error in found] == [
        ("FieldValueRequired", "spec.a: Required value: set a")
    ]


def test_a_transition_rule_runs_only_when_there_was_a_value() -> None:
    """Creation and a field that is new are no transitions."""
    immutable = {"rule": "self == oldSelf", "message": "is immutable"}
    schema = spec_with(a=STRING | {"x-kubernetes-validations": [immutable]})
    assert messages(schema, {"a": "x"}) == []
    assert messages(schema, {"a": "x"}, old={}) == []
    assert messages(schema, {"a": "x"}, old={"a": "x"}) == []
    assert messages(schema, {"a": "y"}, old={"a": "x"}) == ['spec.a: Invalid value: "y": is immutable']


def test_an_optional_old_value_is_asked_whether_it_exists() -> None:
    """With optionalOldSelf the rule runs always, and oldSelf says if it has a value."""
    rule = {
        "rule": "!oldSelf.hasValue() || oldSelf.value() == self",
        "optionalOldSelf": True,
        "message": "fixed",
    }
    schema = spec_with(a=STRING | {"x-kubernetes-validations": [rule]})
    assert messages(schema, {"a": "x"}) == []
    assert messages(schema, {"a": "y"}, old={"a": "x"}) == ['spec.a: Invalid value: "y": fixed']


def test_items_of_a_list_map_are_compared_by_their_keys() -> None:
    """Moving an item is no change of it; items of other lists have no old value."""
    port = {
        "type": "object",
        "properties": {"name": STRING, "port": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.port == oldSelf.port", "message": "port is immutable"}],
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    old = {"p": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}
    new = {"p": [{"name": "b", "port": 2}, {"name": "a", "port": 3}]}
    schema = spec_with(p={"type": "array", "items": port} | keyed)
    assert messages(schema, new, old) == ["spec.p[1]: Invalid value: port is immutable"]
    assert messages(spec_with(p={"type": "array", "items": port}), new, old) == []


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("self.b > 1", "no such key: b"),
        ("self.a / 0 == 1", "division by zero"),
        ("self.a + 9223372036854775807 > 0", "integer overflow"),
        ("self.a == 3 && self.a.b", "no such overload"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_an_error(rule: str, fault: str) -> None:
    """A broken rule never lets an object pass."""
    schema = spec_with({"rule": rule}, a={"type": "integer"}, b={"type": "integer"})
    assert messages(schema, {"a": 3}) == [f"spec: Invalid value: {fault} evaluating rule: {rule}"]


def test_a_rule_must_give_a_bool() -> None:
    """A number is neither yes nor no."""
    schema = spec_with({"rule": "self.a"}, a={"type": "integer"})
    assert messages(schema, {"a": 3}) == ["spec: Invalid value: rule must evaluate to a bool, not 3: self.a"]


def test_values_have_the_types_that_the_schema_gives() -> None:
    """Whole numbers are doubles where the schema says number; times and durations are not text."""
    rules = (
        {"rule": "self.ratio * 1.5 == 3.0"},
        {"rule": "self.at > timestamp('2026-01-01T00:00:00Z')"},
        {"rule": "self.wait > duration('1m')"},
        {"rule": "self.__namespace__ == 'a' && self.x__dash__y == 'b'"},
        {"rule": "self.names.all(name, name.startsWith('n')) && self.counts.sum() == 3"},
    )
    properties = {
        "ratio": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "namespace": STRING,
        "x-y": STRING,
        "names": {"type": "array", "items": STRING},
        "counts": {"type": "array", "items": {"type": "integer"}},
    }
    spec = {
        "ratio": 2,
        "at": "2026-06-01T00:00:00Z",
        "wait": "1h",
        "namespace": "a",
        "x-y": "b",
        "names": ["n1", "n2"],
        "counts": [1, 2],
    }
    assert messages(spec_with(*rules, **properties), spec) == []


def test_rules_wait_for_a_well_formed_object() -> None:
    """They may rely on its shape, so a fault of shape comes first, and the answer says what was left out."""
    schema = spec_with(EITHER, a=STRING, b=STRING)
    assert messages(schema, {"a": 1, "b": "x"}) == [
        'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))",
        "r'\\' != '' && self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))",
        "self.a. all(x, self.a.// comment (\n all(y, self.a.all(z, x + y + z >= 0)))",
        "self.t.split(',').all(x, self.t.split(',').all(y, x == y))",
        "self.a.map(x, self.t + self.t + self.t).size() > 0",
        "self.a.all(x, x in self.a)",
        "self.a.all(x, self.a.sum() > 0)",
        "self.a.all(x, self.t.matches('^[0-9,]*$'))",
        "self.a.all(x, self.t.lowerAscii() == self.t)",
    ],
)
def test_the_cost_of_a_rule_is_bounded(rule: str) -> None:
    """What multiplies a long list or a long text is refused before it runs, however it is written."""
    schema = spec_with({"rule": rule}, t=STRING, a={"type": "array", "items": {"type": "integer"}})
    assert messages(schema, {"a": [1] * 20, "t": "1,1"}) == []
    (message,) = messages(schema, {"a": [1] * 2000, "t": "1," * 500_000})
    assert message.startswith("spec: Invalid value: call cost exceeds limit: about ")
    assert message.endswith(f" steps of at most 3000000 a rule evaluating rule: {rule}")


def test_the_cost_of_all_rules_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many affordable rules are stopped when they add up. (The real bound takes seconds to reach.)"""
    monkeypatch.setattr(rules, "_TOTAL_STEPS", 100_000)
    rule = {"rule": "self.all(x, self.all(y, x == y))"}
    item = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [rule]}
    schema = spec_with(a={"type": "array", "items": item})
    assert messages(schema, {"a": [[1] * 170] * 20})[-1].endswith("no further validation rules will be run")
