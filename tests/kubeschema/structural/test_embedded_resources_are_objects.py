"""x-kubernetes-embedded-resource: a value that must be able to stand by itself."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kubeschema import structural

SCHEMA = {
    "type": "object",
    "properties": {
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    },
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"anything": 1}}


def errors(**changes: Any) -> list[str]:
    template = {name: value for name, value in (POD | changes).items() if value is not None}
    return [error.message() for error in structural.validate(SCHEMA, {"template": template})]


def test_a_whole_object_is_taken() -> None:
    """With or without metadata."""
    assert errors() == []
    assert errors(metadata=None) == []
    assert errors(apiVersion="apps/v1", metadata={"labels": {"a": "b"}, "finalizers": []}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"apiVersion": None}, "template.apiVersion: Required value: must not be empty"),
        ({"apiVersion": ""}, 'template.apiVersion: Invalid value: "": must not be empty'),
        ({"apiVersion": 1}, "template.apiVersion: Invalid value: 1: must be a string"),
        (
            {"apiVersion": "a/b/c"},
            'template.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        ({"metadata": []}, "template.metadata: Invalid value: []: must be an object"),
        (
            {"metadata": {"labels": {"a": 1}}},
            "template.metadata.labels[a]: Invalid value: 1: must be a string",
        ),
        (
            {"metadata": {"name": "a/b"}},
            "template.metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        ({"metadata": {"name": ".."}}, "template.metadata.name: Invalid value: \"..\": may not be '..'"),
    ],
)
def test_what_no_object_has_is_refused(changes: dict[str, Any], expected: str) -> None:
    """At the field inside the embedded object."""
    assert errors(**changes) == [expected]


def test_a_kind_is_a_name() -> None:
    """As the names of kinds are."""
    (error,) = errors(kind="not a kind")
    assert error.startswith('template.kind: Invalid value: "not a kind": a DNS-1035 label must')
