"""Two kinds named InferencePool in two groups, and one group whose versions have different kinds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.kubectl

EXPERIMENTAL, STABLE = "inference.networking.x-k8s.io", "inference.networking.k8s.io"

OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": f"{EXPERIMENTAL}/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": "pool"},
        "spec": {"selector": {"app": "old"}, "targetPortNumber": 8000},
    },
    {
        "apiVersion": f"{STABLE}/v1",
        "kind": "InferencePool",
        "metadata": {"name": "pool"},
        "spec": {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": [{"number": 9000}]},
    },
    {
        "apiVersion": f"{EXPERIMENTAL}/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "chat"},
        "spec": {"modelName": "chat", "poolRef": {"name": "pool"}},
    },
    {
        "apiVersion": f"{EXPERIMENTAL}/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": {"name": "urgent"},
        "spec": {"priority": 10, "poolRef": {"name": "pool"}},
    },
    {
        "apiVersion": "llmd.ai/v1alpha1",
        "kind": "VariantAutoscaling",
        "metadata": {"name": "llama"},
        "spec": {
            "modelID": "llama",
            "variantID": "llama-A100-1",
            "accelerator": "A100",
            "acceleratorCount": 1,
            "sloClassRef": {"name": "classes", "key": "premium"},
            "variantProfile": {
                "perfParms": {"decodeParms": {"alpha": "20"}, "prefillParms": {"gamma": "5"}},
                "maxBatchSize": 4,
            },
        },
    },
]


def applied(kubectl: Any, objects: list[dict[str, Any]]) -> str:
    """What apply printed; it may warn of what is not there yet."""
    done = kubectl.run("apply", "-f", "-", stdin=objects)
    assert done.code == 0, done.err
    return str(done.out)


def table(text: str) -> tuple[list[str], list[str]]:
    """Headings and the first row of what kubectl printed, without the age."""
    heading, row = text.splitlines()[:2]
    return heading.split(), row.split()[:-1]


@pytest.mark.parametrize("objects", [OBJECTS, OBJECTS[::-1]], ids=["in-order", "reversed"])
def test_all_kinds_are_applied_from_one_file(kubectl: Any, objects: list[dict[str, Any]]) -> None:
    """Discovery tells them apart, and a second apply changes nothing."""
    assert applied(kubectl, objects).count(" created") == len(OBJECTS)
    assert applied(kubectl, objects).count(" unchanged") == len(OBJECTS)


@pytest.mark.parametrize(
    ("asked", "headings", "row"),
    [
        (f"inferencepools.{EXPERIMENTAL}", "NAME PORT AGE", "pool 8000"),
        (f"inferencepools.v1alpha1.{EXPERIMENTAL}", "NAME PORT AGE", "pool 8000"),
        (f"inferencepools.{STABLE}", "NAME PORT AGE", "pool 9000"),
        ("infpool", "NAME PORT AGE", "pool 9000"),
        ("inferencemodels", "NAME MODEL NAME INFERENCE POOL CRITICALITY AGE", "chat chat pool Default"),
        ("inferenceobjectives", "NAME INFERENCE POOL PRIORITY AGE", "urgent pool 10"),
        (
            "va",
            "NAME MODEL VARIANTID ACCELERATOR CURRENTREPLICAS OPTIMIZED METRICSREADY AGE",
            "llama llama llama-A100-1 A100",
        ),
    ],
)
def test_each_kind_prints_its_columns(kubectl: Any, asked: str, headings: str, row: str) -> None:
    """By full name, by name and version, and by short name."""
    applied(kubectl, OBJECTS)
    assert table(kubectl("get", asked)) == (headings.split(), row.split())


def test_a_bare_plural_means_the_stable_pool(kubectl: Any) -> None:
    """kubectl takes the first group that has it, in the order of discovery."""
    applied(kubectl, OBJECTS)
    assert kubectl.get("inferencepools", "pool")["apiVersion"] == f"{STABLE}/v1"


def test_the_later_version_of_a_group_is_preferred(kubectl: Any) -> None:
    """Although the kinds of v1alpha1 are not in it."""
    group = msgspec.json.decode(kubectl("get", "--raw", f"/apis/{EXPERIMENTAL}"))
    assert [version["version"] for version in group["versions"]] == ["v1alpha2", "v1alpha1"]
    assert group["preferredVersion"]["version"] == "v1alpha2"
    listed = kubectl("api-resources", "--api-group", EXPERIMENTAL, "--no-headers").splitlines()
    assert {line.split()[0]: line.partition(f"{EXPERIMENTAL}/")[2].split()[0] for line in listed} == {
        "inferencemodelrewrites": "v1alpha2",
        "inferencemodels": "v1alpha1",
        "inferenceobjectives": "v1alpha2",
        "inferencepools": "v1alpha1",
    }


def test_what_a_pool_is_depends_on_the_group(kubectl: Any) -> None:
    """kubectl explain has the fields of each."""
    explain = ("explain", "inferencepools.spec", "--api-version")
    assert "targetPortNumber" in kubectl(*explain, f"{EXPERIMENTAL}/v1alpha1")
    assert "targetPorts" in kubectl(*explain, f"{STABLE}/v1")


def test_deleting_one_pool_leaves_its_namesake(kubectl: Any) -> None:
    """They share a name and nothing else."""
    applied(kubectl, OBJECTS)
    kubectl("delete", f"inferencepools.{EXPERIMENTAL}", "pool")
    assert kubectl.get(f"inferencepools.{STABLE}", "pool")["spec"]["targetPorts"] == [{"number": 9000}]
    assert "not found" in kubectl.refused("get", f"inferencepools.{EXPERIMENTAL}", "pool")
