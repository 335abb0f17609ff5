"""Pods, Deployments, Services and the others have every field of Kubernetes, and no other."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate import api
from headgate.api import kubernetes

ROOT = Path(__file__).resolve().parents[2]
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRICT = {"fieldValidation": "Strict"}
RICH: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
    ],
    "volumes": [
        {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "c", "optional": True}}]}},
    ],
    "containers": [
        {
            "name": "c",
            "image": "i",
            "imagePullPolicy": "Always",
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "livenessProbe": {"grpc": {"port": 9000}, "terminationGracePeriodSeconds": 5},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        }
    ],
}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def deployment(spec: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    return {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


async def test_what_kubernetes_has_is_kept(client: httpx2.AsyncClient) -> None:
    """A Pod that uses much that nobody here reads is stored whole, under strict validation."""
    made = await client.post(PODS, json=pod(**RICH), params=STRICT)
    assert made.status_code == 201, made.text
    spec = made.json()["spec"]
    assert {name: spec[name] for name in RICH if name != "containers"} == {
        name: value for name, value in RICH.items() if name != "containers"
    }
    assert (
        RICH["containers"][0].items()
        <= (spec["containers"][0] | {"livenessProbe": RICH["containers"][0]["livenessProbe"]}).items()
    )
    made = await client.post(DEPLOYMENTS, json=deployment(RICH), params=STRICT)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"name": "c", "livenesProbe": {}}]}, "spec.containers[0].livenesProbe"),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizelimit": "1Gi"}}]},
            "spec.volumes[0].emptyDir.sizelimit",
        ),
        ({"securityContext": {"runAsRoot": False}}, "spec.securityContext.runAsRoot"),
        ({"hostNetwrk": True}, "spec.hostNetwrk"),
    ],
)
async def test_a_misspelt_field_is_told_however_deep(
    client: httpx2.AsyncClient, spec: dict[str, Any], field: str
) -> None:
    """It is refused under strict validation, and otherwise dropped with a warning."""
    refused = await client.post(PODS, json=pod(**spec), params=STRICT)
    assert refused.status_code == 400
    assert f'strict decoding error: unknown field "{field}"' in refused.json()["message"]
    made = await client.post(PODS, json=pod(**spec), params={"fieldValidation": "Warn"})
    assert made.status_code == 201
    assert f'unknown field "{field}"'.replace('"', '\\"') in made.headers["warning"]
    assert field.rpartition(".")[2] not in made.text


async def test_volumes_merge_by_name_in_patches_and_applies(client: httpx2.AsyncClient) -> None:
    """A strategic merge patch and a server-side apply leave the volumes of others alone."""
    await client.post(DEPLOYMENTS, json=deployment(RICH))
    change = {
        "spec": {"template": {"spec": {"volumes": [{"name": "cache", "emptyDir": {"medium": "Memory"}}]}}}
    }
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    patched = (await client.patch(f"{DEPLOYMENTS}/d", json=change, headers=strategic)).json()
    cache = {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    assert patched["spec"]["template"]["spec"]["volumes"] == [cache, RICH["volumes"][1]]
    applied = deployment({"volumes": [{"name": "new", "hostPath": {"path": "/x"}}]})
    applied |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    answer = await client.patch(
        f"{DEPLOYMENTS}/d",
        json=applied,
        params={"fieldManager": "m"},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    names = [each["name"] for each in answer.json()["spec"]["template"]["spec"]["volumes"]]
    assert names == ["cache", "all", "new"]


def test_no_part_of_a_built_in_kind_is_left_open() -> None:
    """Only what Kubernetes leaves open is: schemas of definitions, data of revisions, and managed fields."""
    open_parts = {
        f"{definition['spec']['names']['kind']}{path}"
        for definition in api.builtin_definitions()
        for version in definition["spec"]["versions"]
        for path in _open(version["schema"]["openAPIV3Schema"], "")
    }
    assert {path.rpartition(".")[2] for path in open_parts} == {
        *("data", "fieldsV1", "openAPIV3Schema", "status")
    }


def _open(schema: Any, path: str) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from _open(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _open(schema[key], f"{path}[]")


def test_the_file_of_the_types_is_as_written_by_its_tool() -> None:
    """`python tools/kubernetes_schemas.py` would change nothing."""
    tool = runpy.run_path(str(ROOT / "tools" / "kubernetes_schemas.py"))
    assert Path(kubernetes.__file__).with_name("kubernetes.json").read_text() == tool["written"]()
