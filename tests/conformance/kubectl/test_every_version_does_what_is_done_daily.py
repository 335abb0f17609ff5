"""The core of kubectl with each version that is found: discovery, writes, tables, waits, protobuf bodies."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

GATE = "gate.conformance.headgate.dev/north"


def test_from_the_first_apply_to_the_last_delete(every_kubectl: Any, gate: Any) -> None:
    """What a day with an API server needs."""
    kubectl = every_kubectl
    assert "Server Version: v1." in kubectl.run("version").out
    assert kubectl("apply", "-f", "-", stdin=gate) == f"{GATE} created\n"
    assert kubectl("apply", "-f", "-", stdin=gate) == f"{GATE} unchanged\n"
    gate["spec"]["width"] = 4
    assert kubectl("apply", "-f", "-", stdin=gate) == f"{GATE} configured\n"
    assert kubectl("get", "gt", "-o", "wide").splitlines()[1].split()[:3] == ["north", "4", "oak"]
    assert kubectl.get("gate", "north")["spec"]["width"] == 4
    assert kubectl("get", "waterworks", "-o", "name") == f"{GATE}\n"
    assert kubectl("explain", "gate.spec.width").rstrip().endswith("Metres from bank to bank.")
    assert "Kind:         Gate\n" in kubectl("describe", "gate", "north")
    assert kubectl("patch", "gate", "north", "--type=merge", "-p", '{"spec":{"width":5}}') == (
        f"{GATE} patched\n"
    )
    assert kubectl("scale", "gate", "north", "--replicas=3") == f"{GATE} scaled\n"
    assert kubectl("label", "gate", "north", "tier=gold") == f"{GATE} labeled\n"
    gate["spec"] = {"width": 7}
    assert kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=gate) == (
        f"{GATE} serverside-applied\n"
    )
    assert kubectl("wait", GATE, "--for=jsonpath={.spec.width}=7", "--timeout=5s") == (
        f"{GATE} condition met\n"
    )
    assert kubectl("delete", "-f", "-", stdin=gate) == 'gate.conformance.headgate.dev "north" deleted\n'
    assert kubectl("get", "gates", "-o", "name") == ""


def test_kubernetes_own_kinds(every_kubectl: Any) -> None:
    """Kinds that kubectl has in code: as protobuf since 1.32, patched strategically, and who one is."""
    kubectl = every_kubectl
    assert kubectl("create", "configmap", "c", "--from-literal=a=1") == "configmap/c created\n"
    made = kubectl("create", "deployment", "web", "--image=web:1", "--replicas=0")
    assert made == "deployment.apps/web created\n"
    assert kubectl("set", "image", "deployment/web", "web=web:2") == "deployment.apps/web image updated\n"
    assert kubectl("get", "deploy", "web").split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert kubectl("auth", "can-i", "create", "configmaps") == "yes\n"
    assert kubectl("auth", "whoami").startswith("ATTRIBUTE")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "2"}}
    differing = kubectl.run("diff", "-f", "-", stdin=config)
    assert differing.code == 1
    assert '+  a: "2"' in differing.out.splitlines()
    refused = kubectl.refused("create", "-f", "-", stdin=config)
    assert refused == (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "c" already exists\n'
    )


def test_a_watch_prints_rows(every_kubectl: Any, gate: Any) -> None:
    """`get -w`: what there is, then each change."""
    kubectl = every_kubectl
    kubectl("create", "-f", "-", stdin=gate)
    watching = kubectl.start("get", "gates", "-w")
    assert watching.stdout.readline().split() == ["NAME", "WIDTH", "STATE", "AGE"]
    assert watching.stdout.readline().split()[:2] == ["north", "3"]
    kubectl("patch", "gate", "north", "--type=merge", "-p", '{"spec":{"width":8}}')
    assert watching.stdout.readline().split()[:2] == ["north", "8"]
