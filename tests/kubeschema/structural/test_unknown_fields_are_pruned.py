"""Pruning removes what the schema does not name, and says what."""

from typing import Any

from headgate.kubeschema import structural

ROOT = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "rules": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"weight": {"type": "integer"}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "byName": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"exact": {"type": "string"}}},
                },
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
            },
        }
    },
}


def pruned(spec: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    obj = {"spec": spec}
    removed = structural.prune(ROOT, obj)
    return obj["spec"], removed


def test_apiversion_kind_and_metadata_of_the_root_stay() -> None:
    """The fields that every object has are never pruned, even when the schema is silent about them."""
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "labels": {"b": "c"}}, "other": 1}
    assert structural.prune(ROOT, obj) == ["other"]
    assert obj == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "labels": {"b": "c"}}}


def test_unknown_fields_go_at_every_level_and_are_named_by_path() -> None:
    """Objects in lists and in maps are pruned too, and each removed field is reported where it was."""
    spec, removed = pruned(
        {
            "name": "n",
            "nmae": "typo",
            "metadata": {},
            "rules": [{"weight": 1}, {"weight": 2, "wieght": 3}],
            "byName": {"x-user": {"exact": "a", "extra": 1}},
        }
    )
    assert spec == {
        "name": "n",
        "rules": [{"weight": 1}, {"weight": 2}],
        "byName": {"x-user": {"exact": "a"}},
    }
    assert removed == ["spec.nmae", "spec.metadata", "spec.rules[1].wieght", "spec.byName.x-user.extra"]


def test_keys_of_maps_stay() -> None:
    """additionalProperties gives every key a schema, so none is unknown."""
    assert pruned({"labels": {"a/b": "c", "d": "e"}}) == ({"labels": {"a/b": "c", "d": "e"}}, [])


def test_preserved_fields_stay_but_described_ones_inside_are_pruned() -> None:
    """x-kubernetes-preserve-unknown-fields holds for its own level; a described child is pruned as usual."""
    spec, removed = pruned({"free": {"any": {"thing": [1]}, "known": {"a": "b", "c": "d"}}})
    assert spec == {"free": {"any": {"thing": [1]}, "known": {"a": "b"}}}
    assert removed == ["spec.free.known.c"]


def test_an_embedded_resource_keeps_its_own_metadata() -> None:
    """The root's exception holds inside x-kubernetes-embedded-resource as well."""
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
    assert pruned({"template": {**template, "status": {}}}) == (
        {"template": template},
        ["spec.template.status"],
    )


def test_pruning_stops_at_a_depth_that_no_schema_reaches() -> None:
    """A value nested without end is cut, not followed until the interpreter gives up."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    obj: dict[str, Any] = {}
    inner = obj
    for _ in range(5000):
        inner["a"] = inner = {}
    assert len(structural.prune(schema, obj)) == 1
