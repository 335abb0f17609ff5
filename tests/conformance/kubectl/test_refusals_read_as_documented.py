"""Errors: their words, all of them at once, and exit codes."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl


def test_what_is_not_there_is_told(kubectl: Any) -> None:
    """Objects by kind and name, each; kinds that nobody serves; paths; a namespace that does not exist."""
    for arguments, told in (
        (("get", "gate", "a"), 'gates.conformance.headgate.dev "a" not found'),
        (("get", "configmap", "a"), 'configmaps "a" not found'),
        (("describe", "gate", "a"), 'gates.conformance.headgate.dev "a" not found'),
        (("delete", "gate", "a"), 'gates.conformance.headgate.dev "a" not found'),
        (("patch", "gate", "a", "--type=merge", "-p", "{}"), 'gates.conformance.headgate.dev "a" not found'),
        (("label", "deployment", "a", "x=y"), 'deployments.apps "a" not found'),
        (("get", "--raw", "/apis/none/v1"), "the server could not find the requested resource"),
    ):
        assert kubectl.refused(*arguments) == f"Error from server (NotFound): {told}\n"
    assert kubectl.refused("get", "cm", "a", "b") == (
        'Error from server (NotFound): configmaps "a" not found\n'
        'Error from server (NotFound): configmaps "b" not found\n'
    )
    assert kubectl.refused("get", "gadgets") == (
        'error: the server doesn\'t have a resource type "gadgets"\n'
    )
    assert kubectl.refused("scale", "gate", "a", "--replicas=1").startswith(
        "error: no objects passed to scale"  # and what is missing, since 1.32
    )
    nowhere = kubectl.refused("create", "configmap", "c", "--namespace", f"{kubectl.namespace}-none")
    assert nowhere == 'error: failed to create configmap: namespaces "NAMESPACE-none" not found\n'


def test_what_is_there_already_is_told(kubectl: Any, gate: Any) -> None:
    """Created again, by manifest and by name."""
    kubectl("create", "-f", "-", stdin=gate)
    assert kubectl.refused("create", "-f", "-", stdin=gate) == (
        'Error from server (AlreadyExists): error when creating "STDIN": '
        'gates.conformance.headgate.dev "north" already exists\n'
    )
    kubectl("create", "configmap", "c")
    assert kubectl.refused("create", "configmap", "c") == (
        'error: failed to create configmap: configmaps "c" already exists\n'
    )


def test_kinds_that_are_not_served_are_told(kubectl: Any) -> None:
    """A manifest of a kind that no definition has."""
    unknown = {"apiVersion": "conformance.headgate.dev/v1", "kind": "Gadget", "metadata": {"name": "x"}}
    assert kubectl.refused("create", "-f", "-", stdin=unknown) == (
        'error: resource mapping not found for name: "x" namespace: "" from "STDIN": no matches for kind '
        '"Gadget" in version "conformance.headgate.dev/v1"\nensure CRDs are installed first\n'
    )


def test_every_error_of_an_object_is_told(kubectl: Any, gate: Any) -> None:
    """One line for each field, with its path, its value and what would be valid."""
    gate["metadata"] = {"name": "Bad_Name", "labels": {"tier": "not a label"}}
    gate["spec"] = {
        "width": 101,
        "material": "gold",
        "name": "LONGNAME",
        "replicas": -1,
        "boards": [{"thickness": 1}],
    }
    lines = kubectl.refused("create", "-f", "-", stdin=gate).splitlines()
    assert lines[0] == 'The Gate "Bad_Name" is invalid: '
    for begin in (
        '* metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower '
        "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        '* metadata.labels: Invalid value: "not a label": a valid label must be an empty string or consist '
        "of alphanumeric characters, '-', '_' or '.'",
        "* spec.width: Invalid value: 101: spec.width in body should be less than or equal to 100",
        '* spec.material: Unsupported value: "gold": supported values: "oak", "steel"',
        "* spec.name: Too long: ",
        "* spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
        "* spec.boards[0].id: Required value",
    ):
        assert any(line.startswith(begin) for line in lines), (begin, lines)


def test_a_value_that_does_not_match_its_pattern_is_told(kubectl: Any, gate: Any) -> None:
    """Of a short one, since Kubernetes tells of a value that is too long nothing else."""
    refused = kubectl.refused("create", "-f", "-", stdin=gate | {"spec": {"width": 2, "name": "LO"}})
    assert refused == (
        'The Gate "north" is invalid: spec.name: Invalid value: "LO": '
        "spec.name in body should match '^[a-z]+$'\n"
    )


def with_boards(gate: Any, ids: str) -> Any:
    return gate | {"spec": {"width": 2, "boards": [{"id": one} for one in ids]}}


def test_single_errors_are_told_in_one_line(kubectl: Any, gate: Any) -> None:
    """Rules, missing fields, wrong types, and lists with keys."""
    twice = kubectl.refused("create", "-f", "-", stdin=with_boards(gate, "aa"))
    assert twice.startswith('The Gate "north" is invalid: spec.boards[1]: Duplicate value: ')
    many = kubectl.refused("create", "-f", "-", stdin=with_boards(gate, "abcd"))
    assert "spec.boards: Too many: 4: must have at most 3 items" in many
    rule = kubectl.refused("create", "-f", "-", stdin=gate | {"spec": {"width": 2, "depth": 3}})
    assert rule.replace('"object": ', "") == (  # older servers name the type
        'The Gate "north" is invalid: spec: Invalid value: must not be deeper than wide\n'
    )
    missing = kubectl.refused("create", "-f", "-", stdin=gate | {"spec": {}})
    assert "spec.width: Required value" in missing
    wrong = kubectl.refused("create", "-f", "-", stdin=gate | {"spec": {"width": "wide"}})
    assert (
        'spec.width: Invalid value: "string": spec.width in body must be of type integer: "string"' in wrong
    )


def test_selectors_are_checked(kubectl: Any) -> None:
    """Fields that a kind cannot be selected by, and text that is no selector."""
    field = kubectl.refused("get", "gates", "--field-selector", "spec.width=3")
    assert field.startswith(
        'Error from server (BadRequest): Unable to find "conformance.headgate.dev/v1, Resource=gates" that '
        'match label selector "", field selector "spec.width=3": field label not supported: spec.width'
    )
    label = kubectl.refused("get", "gates", "-l", "a b")
    assert re.search(r'match label selector "a b", field selector "": unable to parse requirement: ', label)


def test_everybody_learns_who_he_is_and_may(kubectl: Any) -> None:
    """`auth whoami` and `auth can-i`: yes with exit code 0, no with 1."""
    assert kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert kubectl("auth", "can-i", "create", "gates") == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    nobody = "--as=conformance-nobody"
    assert kubectl.run("auth", "can-i", "create", "gates", nobody)[:2] == (1, "no\n")
    assert kubectl("auth", "whoami", nobody, "-o", "jsonpath={.status.userInfo.username}") == (
        "conformance-nobody"
    )


def test_what_is_forbidden_is_told(kubectl: Any, gate: Any) -> None:
    """Somebody without rights: which verb, which resource, where."""
    user, kind = "conformance-nobody", "gates.conformance.headgate.dev"
    where = 'in API group "conformance.headgate.dev" in the namespace "NAMESPACE"'
    assert kubectl.refused("get", "gates", f"--as={user}") == (
        f'Error from server (Forbidden): {kind} is forbidden: User "{user}" cannot list resource '
        f'"gates" {where}\n'
    )
    assert kubectl.refused("get", "gate", "north", f"--as={user}") == (
        f'Error from server (Forbidden): {kind} "north" is forbidden: User "{user}" cannot get resource '
        f'"gates" {where}\n'
    )
    refused = kubectl.refused("create", "-f", "-", f"--as={user}", stdin=gate)
    assert refused.endswith(f'{kind} is forbidden: User "{user}" cannot create resource "gates" {where}\n')
