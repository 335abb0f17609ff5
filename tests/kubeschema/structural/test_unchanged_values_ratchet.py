"""An update is not refused for what it leaves as it was: a schema may become stricter under its objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.kubeschema import structural

Object = dict[str, Any]

COLOR = {"type": "string", "enum": ["red", "blue"]}
NAMED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name", "color"],
        "properties": {"name": {"type": "string"}, "color": COLOR},
    },
}
PROPERTIES: Object = {
    "color": COLOR,
    "size": {"type": "integer", "minimum": 1},
    "colors": {"type": "array", "items": COLOR},
    "byName": {"type": "object", "additionalProperties": COLOR},
    "parts": NAMED,
    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "either": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["a"]},
}


def errors(old: Object, new: Object, **more: Any) -> list[str]:
    """Fields that are refused when the spec changes from old to new."""
    spec = {"type": "object", "properties": PROPERTIES} | more
    schema = {"type": "object", "properties": {"spec": spec}}
    return [error.field for error in structural.validate(schema, {"spec": new}, {"spec": old})]


@pytest.mark.parametrize(
    "kept",
    [
        {"color": "green"},
        {"colors": ["red", "green"]},
        {"byName": {"a": "green"}},
        {"parts": [{"name": "a", "color": "green"}, {"name": "b"}]},
        {"tags": ["a", "a"]},
        {"either": {"b": 1}},
        {"color": 3},
    ],
)
def test_an_invalid_value_may_stay(kept: Object) -> None:
    """Whatever is wrong with it, as long as something else is what changes."""
    assert errors({}, kept) != []
    assert errors(kept | {"size": 1}, kept | {"size": 2}) == []


def test_a_value_that_changes_must_become_valid() -> None:
    """From one wrong value to another is refused, and so is a fault beside one that stays."""
    assert errors({"color": "green"}, {"color": "pink"}) == ["spec.color"]
    assert errors({"color": "green", "size": 1}, {"color": "green", "size": 0}) == ["spec.size"]


def test_an_item_of_a_list_map_is_known_by_its_key() -> None:
    """Its neighbours and its place may change."""
    old = [{"name": "a", "color": "green"}]
    assert errors({"parts": old}, {"parts": [{"name": "b", "color": "red"}, *old]}) == []
    changed = [{"name": "b", "color": "pink"}, *old]
    assert errors({"parts": old}, {"parts": changed}) == ["spec.parts[0].color"]


def test_an_item_of_another_list_has_no_past() -> None:
    """A list without keys is one value: when it changes, all of its items are checked."""
    assert errors({"colors": ["green"]}, {"colors": ["green", "red"]}) == ["spec.colors[0]"]


def test_an_entry_of_a_map_is_known_by_its_key() -> None:
    """Other entries may come and go."""
    assert errors({"byName": {"a": "green"}}, {"byName": {"a": "green", "b": "red"}}) == []
    assert errors({"byName": {"a": "green"}}, {"byName": {"b": "green"}}) == ["spec.byName.b"]


def test_repetitions_are_passed_over_where_there_were_some() -> None:
    """Kubernetes compares whether there were any, not which."""
    assert errors({"tags": ["a", "a"]}, {"tags": ["a", "a", "b"]}) == []
    assert errors({"tags": ["a"]}, {"tags": ["a", "a"]}) == ["spec.tags[1]"]


@pytest.mark.parametrize(("old", "new"), [(1, 1.0), (1, True), ("1", 1), ([], {}), (None, {})])
def test_values_of_different_types_are_different(old: Any, new: Any) -> None:
    """Even if Python, or a person, would call them equal."""
    strange = {"either": {"x": old}}, {"either": {"x": new}}
    assert errors(*strange) == ["spec.either.a"]


def test_a_rule_about_what_did_not_change_is_passed_over() -> None:
    """A rule about the whole is asked again as soon as any part of it changes."""
    rule = {"rule": "self.size() < 2", "message": "too many"}
    tagged = {"tags": PROPERTIES["tags"] | {"x-kubernetes-validations": [rule]}, "size": PROPERTIES["size"]}
    many = {"tags": ["a", "b"]}
    assert errors(many | {"size": 1}, many | {"size": 2}, properties=tagged) == []
    assert errors({"tags": ["a"], "size": 1}, many | {"size": 2}, properties=tagged) == ["spec.tags"]
    whole = {"rule": "self.tags.size() < 2", "message": "too many"}
    assert errors(many | {"size": 1}, many | {"size": 2}, **{"x-kubernetes-validations": [whole]}) == ["spec"]


def test_a_transition_rule_is_always_asked() -> None:
    """Also about what did not change, which it may forbid."""
    rule = {"rule": "self != oldSelf", "message": "must change"}
    colored = {"color": COLOR | {"x-kubernetes-validations": [rule]}, "size": PROPERTIES["size"]}
    assert errors({"color": "red", "size": 1}, {"color": "red", "size": 2}, properties=colored) == [
        "spec.color"
    ]


def test_an_optional_old_value_lets_a_rule_ratchet_itself() -> None:
    """optionalOldSelf: a limit for new objects, that old ones may exceed as long as they shrink."""
    rule = {
        "rule": "self <= 10 || (oldSelf.hasValue() && self <= oldSelf.value())",
        "message": "must not grow beyond 10",
        "optionalOldSelf": True,
    }
    sized = {"size": {"type": "integer", "x-kubernetes-validations": [rule]}}
    assert errors({}, {"size": 11}, properties=sized) == ["spec.size"]
    assert errors({"size": 20}, {"size": 11}, properties=sized) == []
    assert errors({"size": 20}, {"size": 21}, properties=sized) == ["spec.size"]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["red", "green", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
specs = st.dictionaries(st.sampled_from(list(PROPERTIES)), values, max_size=4)


@given(specs)
def test_writing_back_what_was_read_is_never_refused(spec: Object) -> None:
    """However wrong it is."""
    assert errors(spec, spec) == []


@given(specs, specs)
def test_ratcheting_only_ever_takes_errors_away(old: Object, new: Object) -> None:
    """What an update is refused for, a creation would be refused for too."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": PROPERTIES}}}
    creation = {error.field for error in structural.validate(schema, {"spec": new})}
    assert set(errors(old, new)) <= creation
