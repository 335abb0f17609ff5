"""`kubectl create KIND`, which sends protobuf since 1.32: stored is what it prints without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

COMMANDS = (
    "configmap c --from-literal=a=b --from-literal=empty=",
    "secret generic s --from-literal=password=x --type=example.com/kind",
    "serviceaccount sa",
    "deployment d --image=sim:1 --replicas=0 --port=8000 -- run --fast",
    "service clusterip svc --tcp=80:8080",
)


def differences(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Where what is found lacks something of what is wanted; null, {} and "" count as nothing."""
    if isinstance(wanted, dict):
        inner = found if isinstance(found, dict) else {}
        return [
            d for name, value in wanted.items() for d in differences(value, inner.get(name), f"{path}.{name}")
        ]
    if isinstance(wanted, list):
        items = found if isinstance(found, list) and len(found) == len(wanted) else [None] * len(wanted)
        return [d for i, value in enumerate(wanted) for d in differences(value, items[i], f"{path}[{i}]")]
    return [] if not wanted or wanted == found else [f"{path}: {wanted!r} became {found!r}"]


def test_every_create_command_stores_what_it_says(every_kubectl: Any) -> None:
    """Each form of create makes the object that `--dry-run=client -o json` shows."""
    kubectl = every_kubectl
    for command in COMMANDS:
        flags, dashes, program = command.partition(" -- ")
        own = [*dashes.split(), *program.split()]
        shown = json.loads(kubectl("create", *flags.split(), "--dry-run=client", "-o", "json", *own))
        assert kubectl("create", *flags.split(), *own).endswith(" created\n")
        stored = kubectl.get(shown["kind"].lower(), shown["metadata"]["name"])
        assert differences(shown, stored) == []
    assert kubectl("autoscale", "deployment", "d", "--min=1", "--max=4", "--cpu-percent=70").endswith(
        "scaled\n"
    )
    shown = kubectl("get", "hpa", "d").splitlines()[1].split()
    assert shown[:4] == ["d", "Deployment/d", "cpu:", "<unknown>/70%"]
    assert kubectl("create", "namespace", f"{kubectl.namespace}-2") == "namespace/NAMESPACE-2 created\n"
    assert kubectl.run("delete", "namespace", f"{kubectl.namespace}-2", "--wait=false").code == 0
