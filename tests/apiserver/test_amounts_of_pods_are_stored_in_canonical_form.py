"""What containers need and may use, as Kubernetes stores it."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def pod_spec(**resources: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def pod(**resources: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec(**resources)}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (0.5, "500m"),
        (2, "2"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        (" 1 ", "1"),
        ("0.0001", "1m"),
    ],
)
async def test_a_quantity_is_stored_as_kubernetes_prints_it(
    client: httpx2.AsyncClient, written: object, stored: str
) -> None:
    """Read, rounded up to a thousandth, and written again; numbers become text."""
    answer = await client.post(PODS, json=pod(requests={"memory": written}))
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["containers"][0]["resources"] == {"requests": {"memory": stored}}


async def test_what_is_limited_is_requested(client: httpx2.AsyncClient) -> None:
    """Unless another amount is; in Pods, not yet in the template of a Deployment."""
    resources = {"limits": {"cpu": 2, "memory": "2048Ki"}, "requests": {"cpu": 1}}
    stored = (await client.post(PODS, json=pod(**resources))).json()
    assert stored["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "2Mi"},
        "requests": {"cpu": "1", "memory": "2Mi"},
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(limits={"cpu": 0.25})}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    stored = (await client.post(DEPLOYMENTS, json=deployment)).json()
    containers = stored["spec"]["template"]["spec"]["containers"]
    assert containers[0]["resources"] == {"limits": {"cpu": "250m"}}


@pytest.mark.parametrize("written", ["1x", "", True, [], "one"])
async def test_what_is_no_quantity_is_refused(client: httpx2.AsyncClient, written: object) -> None:
    """At its place, and once."""
    answer = await client.post(PODS, json=pod(limits={"memory": written}))
    assert answer.status_code == 422
    causes = answer.json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.containers[0].resources.limits.memory"]
