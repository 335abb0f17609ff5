"""`kubectl delete`: what goes, what it waits for, and what goes along."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

NORTH = 'gate.conformance.headgate.dev "north" deleted\n'


def config(name: str, **meta: Any) -> Any:
    labels = {"suite": "delete"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels, **meta}}


def names(kubectl: Any) -> list[str]:
    shown: str = kubectl("get", "configmaps", "-l", "suite=delete", "-o", "name")
    return [line.removeprefix("configmap/") for line in shown.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("configmap", "a"), ["b", "c"]),
        (("configmap/a", "configmap/b"), ["c"]),
        (("configmaps", "-l", "suite=delete"), []),
        (("configmaps", "--field-selector", "metadata.name=b"), ["a", "c"]),
        (("configmap", "a", "--wait=false"), ["b", "c"]),
        (("configmap", "a", "--now"), ["b", "c"]),
        (("configmap", "a", "--grace-period=1"), ["b", "c"]),
        (("configmap", "a", "--ignore-not-found"), ["b", "c"]),
        (("configmap", "none", "--ignore-not-found"), ["a", "b", "c"]),
        (("configmap", "a", "--cascade=background"), ["b", "c"]),
    ],
)
def test_what_is_named_goes(kubectl: Any, arguments: tuple[str, ...], kept: list[str]) -> None:
    """By name, by label, by field; each is told, and gone when the command ends."""
    kubectl("create", "-f", "-", stdin=[config("a"), config("b"), config("c")])
    gone = [name for name in ("a", "b", "c") if name not in kept]
    assert kubectl("delete", *arguments).splitlines() == [f'configmap "{name}" deleted' for name in gone]
    assert names(kubectl) == kept


def test_manifests_and_all_of_a_kind_are_deleted(kubectl: Any, gate: Any) -> None:
    """`-f` deletes what the manifest has, `--all` all of a kind in the namespace."""
    kubectl("create", "-f", "-", stdin=[gate, config("a")])
    assert kubectl("delete", "-f", "-", stdin=[gate, config("a")]) == NORTH + 'configmap "a" deleted\n'
    south = gate | {"metadata": {"name": "south"}}
    kubectl("create", "-f", "-", stdin=[gate, south])
    assert kubectl("delete", "gates", "--all") == NORTH + NORTH.replace("north", "south")
    assert kubectl.run("delete", "gates", "--all") == (0, "No resources found\n", "")


def test_a_dry_run_deletes_nothing(kubectl: Any, gate: Any) -> None:
    """On the client and on the server; the output is what is asked for."""
    kubectl("create", "-f", "-", stdin=gate)
    assert kubectl("delete", "gate", "north", "--dry-run=client") == NORTH.replace("\n", " (dry run)\n")
    assert kubectl("delete", "gate", "north", "--dry-run=server") == (
        NORTH.replace("\n", " (server dry run)\n")
    )
    assert kubectl("delete", "gate", "north", "-o", "name") == "gate.conformance.headgate.dev/north\n"
    assert kubectl.refused("delete", "gate", "north") == (
        'Error from server (NotFound): gates.conformance.headgate.dev "north" not found\n'
    )


def test_force_does_not_wait(kubectl: Any) -> None:
    """`--force` warns that nothing is confirmed, and the object is gone."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {
            "nodeSelector": {"conformance.headgate.dev/none": "here"},
            "containers": [{"name": "web", "image": "web:1"}],
        },
    }
    kubectl("create", "-f", "-", stdin=pod)
    forced = kubectl.run("delete", "pod", "one", "--force", "--grace-period=0")
    assert forced.out == 'pod "one" force deleted\n'
    assert forced.err.startswith("Warning: Immediate deletion does not wait for confirmation")
    assert kubectl.run("get", "pod", "one").code == 1


def test_a_finalizer_holds_an_object(kubectl: Any, gate: Any) -> None:
    """`delete` waits for it; the object stays as it is being deleted, and refuses new finalizers."""
    gate["metadata"]["finalizers"] = ["conformance.headgate.dev/hold"]
    kubectl("create", "-f", "-", stdin=gate)
    timed_out = kubectl.run("delete", "gate", "north", "--timeout=1s")
    assert (timed_out.code, timed_out.out) == (1, NORTH)
    assert timed_out.err.endswith("error: timed out waiting for the condition on gates/north\n")
    deleting = kubectl.start("delete", "gate", "north")
    assert deleting.stdout.readline() == NORTH
    assert "deletionTimestamp" in kubectl.get("gate", "north")["metadata"]
    more = '{"metadata":{"finalizers":["conformance.headgate.dev/hold","conformance.headgate.dev/more"]}}'
    refused = kubectl.run("patch", "gate", "north", "--type=merge", "-p", more)
    assert (refused.code, "metadata.finalizers: Forbidden: " in refused.err) == (1, True)
    kubectl("patch", "gate", "north", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert deleting.wait(100) == 0
    assert kubectl.run("get", "gate", "north").code == 1


def owned(kubectl: Any, *, blocks: bool = False) -> None:
    """Two ConfigMaps: `owner`, and `dependent` that it owns."""
    kubectl("create", "-f", "-", stdin=config("owner"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "blockOwnerDeletion": blocks}
    owner["uid"] = kubectl.get("configmap", "owner")["metadata"]["uid"]
    kubectl("create", "-f", "-", stdin=config("dependent", ownerReferences=[owner]))


@pytest.mark.controllers
def test_dependents_go_with_their_owner(kubectl: Any) -> None:
    """In the background by default."""
    owned(kubectl)
    kubectl("delete", "configmap", "owner")
    kubectl("wait", "configmap/dependent", "--for=delete", "--timeout=60s")
    assert names(kubectl) == []


@pytest.mark.controllers
def test_dependents_go_before_their_owner(kubectl: Any) -> None:
    """`--cascade=foreground`: when the command ends, both are gone."""
    owned(kubectl, blocks=True)
    assert kubectl("delete", "configmap", "owner", "--cascade=foreground") == 'configmap "owner" deleted\n'
    assert names(kubectl) == []


@pytest.mark.controllers
def test_orphans_stay(kubectl: Any) -> None:
    """`--cascade=orphan`: the dependents stay, without an owner."""
    owned(kubectl)
    kubectl("delete", "configmap", "owner", "--cascade=orphan")
    assert names(kubectl) == ["dependent"]
    assert "ownerReferences" not in kubectl.get("configmap", "dependent")["metadata"]


def test_a_kind_goes_with_its_definition(kubectl: Any) -> None:
    """A definition serves its kind as soon as it is established, and takes all objects along."""
    plural = f"kinds{kubectl.namespace.rpartition('-')[2]}"
    name = f"{plural}.conformance.headgate.dev"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "conformance.headgate.dev",
            "scope": "Namespaced",
            "names": {"kind": plural.capitalize(), "plural": plural},
            "versions": [version],
        },
    }
    kubectl("create", "-f", "-", stdin=definition)
    assert kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=60s") == (
        f"customresourcedefinition.apiextensions.k8s.io/{name} condition met\n"
    )
    thing = {"apiVersion": "conformance.headgate.dev/v1", "kind": plural.capitalize()}
    kubectl("apply", "-f", "-", stdin=thing | {"metadata": {"name": "x"}, "free": {"form": [1]}})
    assert kubectl.get(plural, "x")["free"] == {"form": [1]}
    assert kubectl("get", plural).split()[:3] == ["NAME", "AGE", "x"]
    kubectl.run("delete", "crd", name)
    gone = kubectl.run("get", "--raw", f"/apis/conformance.headgate.dev/v1/{plural}")
    assert (gone.code, gone.err) == (
        1,
        "Error from server (NotFound): the server could not find the requested resource\n",
    )
