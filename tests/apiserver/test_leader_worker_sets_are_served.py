"""LeaderWorkerSets: defaults and limits as in the project LWS, Pod templates as in Kubernetes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

URL = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
MERGE = {"content-type": "application/merge-patch+json"}


def manifest(name: str = "ring", container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    worker = {
        "metadata": {"labels": {"app": "ring"}},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}]},
    }
    template = {"workerTemplate": worker, "size": 2} | spec.pop("leaderWorkerTemplate", {})
    return {"metadata": {"name": name}, "spec": {"leaderWorkerTemplate": template, **spec}}


async def test_defaults_are_those_of_lws(http: httpx2.AsyncClient) -> None:
    """What a manifest leaves out is what LWS's definition and webhook would set."""
    made = (await http.post(URL, json=manifest())).json()
    spec = made["spec"]
    assert spec["replicas"] == 1
    assert spec["startupPolicy"] == "LeaderCreated"
    assert spec["networkConfig"] == {"subdomainPolicy": "Shared"}
    limits = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    assert spec["rolloutStrategy"] == {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"


async def test_fields_of_pods_are_kept_and_unknown_ones_are_noticed(http: httpx2.AsyncClient) -> None:
    """A template may have every field that a Pod has, and no others."""
    known = {"securityContext": {"runAsUser": 7}, "ports": [{"containerPort": 80}]}
    strict = {"fieldValidation": "Strict"}
    made = (await http.post(URL, json=manifest(container=known), params=strict)).json()
    [container] = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    assert container == {"name": "c", "image": "i", "securityContext": {"runAsUser": 7}, "ports": ports}
    unknown = await http.post(URL, json=manifest("other", container={"imagee": "x"}), params=strict)
    assert unknown.status_code == 400
    field = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].imagee"
    assert f'unknown field "{field}"' in unknown.json()["message"]


async def test_it_scales_and_prints_as_lws_does(http: httpx2.AsyncClient) -> None:
    """The scale subresource and the columns of `kubectl get`."""
    await http.post(URL, json=manifest())
    status = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "hpaPodSelector": "a=b"}
    await http.patch(f"{URL}/ring/status", json={"status": status}, headers=MERGE)
    scaled = await http.patch(f"{URL}/ring/scale", json={"spec": {"replicas": 3}}, headers=MERGE)
    assert scaled.json()["spec"] == {"replicas": 3}
    assert scaled.json()["status"] == {"replicas": 1, "selector": "a=b"}
    table = (await http.get(URL, headers=TABLE)).json()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        *("Name", "Ready", "Desired", "Up-to-date", "Age")
    ]
    assert table["rows"][0]["cells"][:4] == ["ring", 1, 3, 1]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (manifest("1ring"), "metadata.name must have"),
        (manifest("r" * 64), "metadata.name must have"),
        (manifest(replicas=-1), "spec.replicas"),
        (manifest(leaderWorkerTemplate={"size": 0}), "spec.leaderWorkerTemplate.size"),
        (manifest(startupPolicy="Late"), "spec.startupPolicy"),
        *(
            (manifest(rolloutStrategy={"type": "RollingUpdate", "rollingUpdateConfiguration": limits}), words)
            for limits, words in [
                ({"maxUnavailable": 0}, "must not be 0 when maxSurge is 0"),
                ({"maxUnavailable": "0%", "maxSurge": 0}, "must not be 0 when maxSurge is 0"),
                ({"maxUnavailable": "101%"}, "a percentage up to 100%"),
                ({"maxSurge": -1}, "a number that is not negative"),
                ({"maxSurge": "many"}, "a percentage up to 100%"),
                ({"partition": -1}, "partition"),
            ]
        ),
    ],
)
async def test_what_lws_rejects_is_rejected(
    http: httpx2.AsyncClient, bad: dict[str, Any], words: str
) -> None:
    """The rules of LWS's webhook are part of the definition."""
    refused = await http.post(URL, json=bad)
    assert refused.status_code == 422, refused.text
    assert words in refused.json()["message"]


async def test_a_surge_alone_is_enough(http: httpx2.AsyncClient) -> None:
    """Percentages and a surge without unavailability are accepted."""
    limits = {"maxUnavailable": 0, "maxSurge": "25%"}
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
    assert (await http.post(URL, json=manifest(rolloutStrategy=strategy))).status_code == 201
