"""Discovery, `explain`, `describe`, and what the server says of itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl


def test_resources_are_listed_with_their_names(kubectl: Any) -> None:
    """`api-resources` has names, short names, scope, kind, verbs and categories."""
    rows = [line.split() for line in kubectl("api-resources").splitlines()]
    assert rows[0] == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    for row in (
        ["configmaps", "cm", "v1", "true", "ConfigMap"],
        ["namespaces", "ns", "v1", "false", "Namespace"],
        ["pods", "po", "v1", "true", "Pod"],
        ["secrets", "v1", "true", "Secret"],
        ["serviceaccounts", "sa", "v1", "true", "ServiceAccount"],
        ["services", "svc", "v1", "true", "Service"],
        ["namespaces", "ns", "v1", "false", "Namespace"],
        ["deployments", "deploy", "apps/v1", "true", "Deployment"],
        ["replicasets", "rs", "apps/v1", "true", "ReplicaSet"],
        ["leases", "coordination.k8s.io/v1", "true", "Lease"],
        ["gates", "gt", "conformance.headgate.dev/v1", "true", "Gate"],
    ):  # fmt: skip
        assert row in rows


def test_resources_are_listed_by_what_they_are(kubectl: Any) -> None:
    """`--api-group`, `--categories`, `--namespaced`, `--verbs` and `-o` narrow and shape the list."""
    wide = kubectl("api-resources", "--api-group=conformance.headgate.dev", "-o", "wide").splitlines()
    assert wide[0].split() == [
        "NAME",
        "SHORTNAMES",
        "APIVERSION",
        "NAMESPACED",
        "KIND",
        "VERBS",
        "CATEGORIES",
    ]
    *_, verbs, category = wide[1].split()
    assert verbs == "delete,deletecollection,get,list,patch,create,update,watch"
    assert category == "waterworks"
    assert (
        kubectl("api-resources", "--categories=waterworks", "-o", "name")
        == "gates.conformance.headgate.dev\n"
    )
    cluster = kubectl("api-resources", "--namespaced=false", "--no-headers")
    assert ["customresourcedefinitions", "crd,crds"] in [line.split()[:2] for line in cluster.splitlines()]
    assert "gates" not in cluster
    assert "gates.conformance.headgate.dev" in kubectl("api-resources", "--verbs=list,watch", "-o", "name")


def test_versions_are_listed(kubectl: Any) -> None:
    """`api-versions` is sorted and has the version of every definition."""
    versions = kubectl("api-versions").splitlines()
    assert versions == sorted(versions)
    assert {
        "v1", "apps/v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1",
        "conformance.headgate.dev/v1", "networking.volcano.sh/v1alpha1",
    } <= set(versions)  # fmt: skip


def test_the_server_says_what_it_is(kubectl: Any) -> None:
    """`version`, `cluster-info`, `config view` and the health paths."""
    assert re.search(r"^Server Version: v1\.\d+\.\d+", kubectl.run("version").out, re.MULTILINE)
    told = json.loads(kubectl.run("version", "-o", "json").out)["serverVersion"]
    assert told["gitVersion"].startswith(f"v{told['major']}.{told['minor'].rstrip('+')}.")
    assert "Kubernetes control plane" in kubectl("cluster-info")
    assert "is running at " in kubectl("cluster-info")
    for path in ("/readyz", "/livez", "/healthz"):
        assert kubectl("get", "--raw", path) == "ok"
    assert kubectl("config", "current-context").strip()
    assert re.search("REDACTED|DATA[+]OMITTED", kubectl("config", "view"))


def test_explain_shows_fields_of_custom_kinds(kubectl: Any) -> None:
    """`explain` of a kind has each field with its type, and descriptions of the definition."""
    shown = kubectl("explain", "gates")
    assert shown.startswith(
        "GROUP:      conformance.headgate.dev\nKIND:       Gate\nVERSION:    v1\n\n"
        "DESCRIPTION:\n    Gate lets water through.\n"
    )
    fields = re.findall(r"^  (\w+)\t(<\S+>(?: -required-)?)$", shown, re.MULTILINE)
    assert fields == [
        ("apiVersion", "<string>"),
        ("kind", "<string>"),
        ("metadata", "<ObjectMeta>"),
        ("spec", "<Object> -required-"),
        ("status", "<Object>"),
    ]
    assert kubectl("explain", "gates", "--api-version=conformance.headgate.dev/v1") == shown


def test_explain_goes_into_fields(kubectl: Any) -> None:
    """A path explains one field; `--recursive` shows all below it; an unknown one is refused."""
    explained = kubectl("explain", "gate.spec.width").splitlines()
    assert [line for line in explained if line.strip()] == [
        "GROUP:      conformance.headgate.dev",
        "KIND:       Gate",
        "VERSION:    v1",
        "FIELD: width <integer>",
        "DESCRIPTION:",
        "    Metres from bank to bank.",
    ]
    recursive = kubectl("explain", "gates.spec", "--recursive")
    for line in ("  boards\t<[]Object>", "    id\t<string> -required-", "  width\t<integer> -required-"):
        assert line in recursive.splitlines()
    unknown = kubectl.run("explain", "gate.spec.nix")
    assert (unknown.code, unknown.err) == (1, 'error: field "nix" does not exist\n')


def test_explain_knows_kubernetes_kinds(kubectl: Any) -> None:
    """Built-in kinds are explained by their types."""
    assert "FIELD: labels <map[string]string>" in kubectl("explain", "deployment.metadata.labels")
    assert "  containers\t<[]" in kubectl("explain", "pod.spec")


def test_describe_shows_a_custom_object(kubectl: Any, gate: Any) -> None:
    """Metadata, the fields in words, and the events about it."""
    kubectl("create", "-f", "-", stdin=gate)
    shown = kubectl("describe", "gate", "north")
    shown = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", shown)
    shown = re.sub(r"(Resource Version: +)\d+", r"\1VERSION", shown)
    shown = re.sub(r"(UID: +)[-0-9a-f]{36}", r"\1UID", shown)
    assert shown.splitlines() == [
        "Name:         north",
        "Namespace:    NAMESPACE",
        "Labels:       river=aare",
        "Annotations:  <none>",
        "API Version:  conformance.headgate.dev/v1",
        "Kind:         Gate",
        "Metadata:",
        "  Creation Timestamp:  TIME",
        "  Generation:          1",
        "  Resource Version:    VERSION",
        "  UID:                 UID",
        "Spec:",
        "  Material:  oak",
        "  Replicas:  2",
        "  Width:     3",
        "Events:      <none>",
    ]


def test_events_are_told_with_their_object(kubectl: Any, gate: Any) -> None:
    """An Event shows up in `describe`, `get events` and `events --for`."""
    kubectl("create", "-f", "-", stdin=gate)
    about = kubectl.get("gate", "north")
    kubectl("create", "-f", "-", stdin=event(about, kubectl.namespace))
    told = kubectl("describe", "gate", "north").splitlines()
    assert told[-3].split() == ["Type", "Reason", "Age", "From", "Message"]
    assert told[-1].split()[:2] == ["Warning", "Leaking"]
    assert told[-1].endswith("water comes through")
    columns, row = kubectl("get", "events", "--field-selector", "reason=Leaking").splitlines()
    assert columns.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row.split(None, 1)[1].split()[:3] == ["Warning", "Leaking", "gate/north"]
    columns, row = kubectl("events", "--for", "gate/north", "--types=Warning").splitlines()
    assert columns.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert row.endswith("Gate/north   water comes through")


def event(about: Any, namespace: str) -> Any:
    kept = ("apiVersion", "kind")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "north-"},
        "involvedObject": {key: about[key] for key in kept}
        | {"name": "north", "namespace": namespace, "uid": about["metadata"]["uid"]},
        "type": "Warning",
        "reason": "Leaking",
        "message": "water comes through",
        "firstTimestamp": about["metadata"]["creationTimestamp"],
        "lastTimestamp": about["metadata"]["creationTimestamp"],
        "count": 1,
        "source": {"component": "test"},
    }


def test_verbose_output_shows_the_requests(kubectl: Any, gate: Any) -> None:
    """`-v=8` shows methods, paths, statuses and the Table that was asked for."""
    kubectl("create", "-f", "-", stdin=gate)
    shown = kubectl.run("get", "gates", "-v=8")
    assert shown.code == 0
    assert re.search(r"GET.*/namespaces/NAMESPACE/gates\?limit=500", shown.err)
    assert "as=Table;v=v1;g=meta.k8s.io" in shown.err
    assert "200 OK" in shown.err
