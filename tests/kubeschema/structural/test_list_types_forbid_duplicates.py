"""x-kubernetes-list-type: a set has no equal items, a map no two items with the same keys."""

from typing import Any

import pytest

from headgate.kubeschema import structural

SET = {"type": "array", "x-kubernetes-list-type": "set"}
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}


@pytest.mark.parametrize(
    ("field", "items", "expected"),
    [
        (SET, ["a", "b", "a"], ['x[2]: Duplicate value: "a"']),
        (SET, ["1", 1, True], []),
        (
            MAP,
            [{"name": "a", "port": 1}, {"name": "a", "port": 2}, {"name": "a", "port": 1, "more": 3}],
            ['x[2]: Duplicate value: {"name":"a","port":1}'],
        ),
        (MAP, [{"name": "a"}, {"name": "a"}], ['x[1]: Duplicate value: {"name":"a","port":null}']),
        ({"type": "array", "x-kubernetes-list-type": "atomic"}, ["a", "a"], []),
    ],
)
def test_each_repetition_is_named(field: dict[str, Any], items: list[Any], expected: list[str]) -> None:
    """The second occurrence is the error, with the value or the keys that repeat."""
    found = structural.validate({"properties": {"x": field}}, {"x": items})
    assert [error.message() for error in found] == expected


def test_a_map_key_is_in_brackets_as_field_paths_print_it() -> None:
    """Kubernetes prints list types and rules by field path, unlike schema errors."""
    schema = {"properties": {"byName": {"type": "object", "additionalProperties": SET}}}
    found = structural.validate(schema, {"byName": {"k": [1, 1]}})
    assert [error.message() for error in found] == ["byName[k][1]: Duplicate value: 1"]
