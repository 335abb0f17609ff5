"""Kinds of Kubernetes that are served by their schema, and the one that has two versions."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SUBSETS = [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 5}]}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("group", "plural", "obj", "row"),
    [
        ("/api/v1", "serviceaccounts", {"automountServiceAccountToken": True}, [0]),
        ("/api/v1", "endpoints", {"subsets": SUBSETS}, ["1.2.3.4:5"]),
        (
            "/apis/discovery.k8s.io/v1", "endpointslices",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 5}]},
            ["IPv4", "5", "1.2.3.4"],
        ),
        ("/apis/coordination.k8s.io/v1", "leases", {"spec": {"holderIdentity": "me"}}, ["me"]),
        (
            "/apis/apps/v1", "statefulsets",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}, ["0/1"],
        ),
        ("/apis/apps/v1", "controllerrevisions", {"revision": 2, "data": {"a": [{"b": 1}]}}, ["<none>", 2]),
    ],
)  # fmt: skip
async def test_each_is_stored_as_sent_and_printed(
    client: httpx2.AsyncClient, group: str, plural: str, obj: dict[str, Any], row: list[Any]
) -> None:
    """A kind needs no more than its schema: fields of Kubernetes that are not in it are kept."""
    url = f"{group}/namespaces/default/{plural}"
    sent = {"metadata": {"name": "x"}, **obj}
    made = (await client.post(url, json=sent)).json()
    assert obj.keys() <= made.keys()
    assert made.get("data") == obj.get("data")
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    shown = (await client.get(f"{url}/x", headers=table)).json()
    assert shown["rows"][0]["cells"][1 : 1 + len(row)] == row


async def test_a_stateful_set_scales(client: httpx2.AsyncClient) -> None:
    """The scale subresource reads and writes its replicas."""
    url = "/apis/apps/v1/namespaces/default/statefulsets"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    await client.post(url, json={"metadata": {"name": "s"}, "spec": spec})
    headers = {"content-type": "application/merge-patch+json"}
    scaled = await client.patch(f"{url}/s/scale", json={"spec": {"replicas": 3}}, headers=headers)
    assert scaled.json()["spec"] == {"replicas": 3}
    assert (await client.get(f"{url}/s/scale")).json()["status"]["selector"] == "a=b"


async def test_an_autoscaler_reads_the_same_in_both_versions(client: httpx2.AsyncClient) -> None:
    """What v1 says of CPU is a metric in v2, and lists and watches answer in the version that is asked."""
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
    made = await client.post(V1, json={"metadata": {"name": "d"}, "spec": spec})
    assert made.json()["spec"] == {**spec, "minReplicas": 1}
    target = {"type": "Utilization", "averageUtilization": 60}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    newer = (await client.get(f"{V2}/d")).json()
    assert (newer["apiVersion"], newer["spec"]["metrics"]) == ("autoscaling/v2", [metric])
    older = (await client.get(V1)).json()["items"][0]
    assert (older["apiVersion"], older["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 60)


async def test_what_v1_cannot_say_survives_a_write_in_v1(client: httpx2.AsyncClient) -> None:
    """Other metrics and the behavior are annotations in v1, and are metrics again in v2."""
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [pods], "behavior": behavior}
    await client.post(V2, json={"metadata": {"name": "d"}, "spec": spec})
    older = (await client.get(f"{V1}/d")).json()
    assert "metrics" not in older["spec"]
    older["spec"]["maxReplicas"] = 9
    assert (await client.put(f"{V1}/d", json=older)).status_code == 200
    newer = (await client.get(f"{V2}/d")).json()
    assert newer["spec"] == {**spec, "minReplicas": 1, "maxReplicas": 9}
    assert "annotations" not in newer["metadata"]


async def test_an_autoscaler_without_metrics_goes_by_cpu(client: httpx2.AsyncClient) -> None:
    """As in Kubernetes, 80 percent of the requested CPU is what is wanted then."""
    await client.post(
        V1, json={"metadata": {"name": "d"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}
    )
    assert (await client.get(f"{V1}/d")).json()["spec"]["targetCPUUtilizationPercentage"] == 80


@pytest.mark.parametrize("nonsense", ["x", 5, ["x"], {"averageUtilization": "x"}])
async def test_what_makes_no_sense_anywhere_is_refused(client: httpx2.AsyncClient, nonsense: Any) -> None:
    """Every part of a built-in kind has a schema, also what nobody here reads."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": nonsense}}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [metric]}
    refused = await client.post(V2, json={"metadata": {"name": "d"}, "spec": spec})
    assert refused.status_code == 422
    assert "spec.metrics[0].resource.target" in refused.json()["message"]
    subsets = [{"addresses": nonsense}]
    endpoints = "/api/v1/namespaces/default/endpoints"
    refused = await client.post(endpoints, json={"metadata": {"name": "e"}, "subsets": subsets})
    assert refused.status_code == 422
    assert "subsets[0].addresses" in refused.json()["message"]


@pytest.mark.parametrize("kind", ["configmaps", "pods", "secrets", "services"])
async def test_a_misspelt_part_of_a_built_in_kind_is_refused(client: httpx2.AsyncClient, kind: str) -> None:
    """kubectl asks for strict validation: `spce` beside where spec should be is told, not stored."""
    obj = {"metadata": {"name": "x"}, "spce": {"a": 1}}
    params = {"fieldValidation": "Strict", "dryRun": "All"}
    refused = await client.post(f"/api/v1/namespaces/default/{kind}", json=obj, params=params)
    assert refused.status_code == 400
    assert 'strict decoding error: unknown field "spce"' in refused.json()["message"]


@pytest.mark.parametrize(
    ("url", "obj", "generation"),
    [
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}, None),
        ("/api/v1/namespaces", {}, None),
        ("/api/v1/namespaces/default/configmaps", {"data": {"a": "b"}}, None),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
            1,
        ),
    ],
)
async def test_few_kinds_count_their_generations(
    client: httpx2.AsyncClient, url: str, obj: dict[str, Any], generation: int | None
) -> None:
    """Those that controllers observe; a deletion that waits does not begin to count."""
    sent = {"metadata": {"name": "x", "finalizers": ["test.example/hold"]}, **obj}
    made = (await client.post(url, json=sent)).json()
    assert made["metadata"].get("generation") == generation
    marked = (await client.delete(f"{url}/x")).json()
    assert marked["metadata"].get("generation") == (generation and generation + 1)
