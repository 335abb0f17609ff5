# ruff: noqa: E501 - texts stand whole, as they are sent
"""Warnings of admission come with the answer of a write, whatever kind of write it is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import httpx2

from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts

ROUTES = "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes"
SERVERS = "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelservers"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}

DANGLING = (
    '299 - "spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/s; requests for it '
    'fail until there is"'
)
WEIGHTLESS = (
    '299 - "spec.rules[0].targetModels: the only weight is 0: requests that match this rule go to the next '
    'route for the model, if any"'
)


def route(name: str = "r", weight: int = 1, model: str = "m") -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name},
        "spec": {
            "modelName": model,
            "rules": [{"targetModels": [{"modelServerName": "s", "weight": weight}]}],
        },
    }


SERVER = {
    "metadata": {"name": "s"},
    "spec": {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": "s"}}},
}


def warnings(answer: httpx2.Response) -> list[str]:
    assert answer.status_code < 300, answer.text
    return answer.headers.get_list("warning")


async def test_every_kind_of_write_is_warned(http: httpx2.AsyncClient) -> None:
    """Create, dry run, update, patch and server-side apply; a write that changes no spec is not."""
    dry = {"dryRun": "All"}
    assert warnings(await http.post(ROUTES, json=route(), params=dry)) == [DANGLING]
    created = await http.post(ROUTES, json=route())
    assert warnings(created) == [DANGLING]
    updated = copy.deepcopy(created.json())
    updated["spec"]["rules"][0]["targetModels"][0]["weight"] = 0
    assert warnings(await http.put(f"{ROUTES}/r", json=updated)) == [DANGLING, WEIGHTLESS]
    name = {"spec": {"loraAdapters": ["a", "a"]}}
    patched = warnings(await http.patch(f"{ROUTES}/r", json=name, headers=MERGE))
    assert patched == [
        '299 - "spec.loraAdapters[1]: \\"a\\" is listed already, as loraAdapters[0]"',
        DANGLING,
        WEIGHTLESS,
    ]
    label = {"metadata": {"labels": {"a": "b"}}}
    assert warnings(await http.patch(f"{ROUTES}/r", json=label, headers=MERGE)) == []
    status = {"status": {"conditions": []}}
    assert warnings(await http.patch(f"{ROUTES}/r/status", json=status, headers=MERGE)) == []
    params = {"fieldManager": "me"}
    applied = await http.patch(
        f"{ROUTES}/other", json=route("other", model="o"), headers=APPLY, params=params
    )
    assert warnings(applied) == [DANGLING]


async def test_references_are_looked_up_in_the_store(http: httpx2.AsyncClient) -> None:
    """A target that comes is no longer missing; a second route for a name hears of the first."""
    assert warnings(await http.post(SERVERS, json=SERVER)) == []
    assert warnings(await http.post(ROUTES, json=route("a"))) == []
    assert warnings(await http.post(ROUTES, json=route("b"))) == [
        '299 - "spec.modelName: ModelRoute default/a is for \\"m\\" too, older, and takes every request: this '
        'route gets none"'
    ]
    await http.delete(f"{ROUTES}/a")
    assert warnings(await http.post(ROUTES, json=route("c", model="b"))) == []
    assert len(warnings(await http.post(ROUTES, json=route("d")))) == 1


async def test_what_others_say_survives_a_restart(tmp_path: Path) -> None:
    """The index of the store is made anew from what is stored."""
    headers = {"authorization": "Bearer t"}
    for name, told in (("a", 1), ("b", 2)):
        parts = Parts(Config(tmp_path))
        transport = httpx2.ASGITransport(application(parts, "t"))
        async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
            assert len(warnings(await client.post(ROUTES, json=route(name)))) == told
        parts.store.close()


async def test_errors_of_schema_and_rules_come_together(http: httpx2.AsyncClient) -> None:
    """One refusal has a bad name, a weight out of bounds, an empty adapter and a regular expression that is none."""
    bad = route("Bad_Name", weight=101)
    bad["spec"]["loraAdapters"] = [""]
    bad["spec"]["rules"][0]["modelMatch"] = {"uri": {"regex": "("}}
    answer = await http.post(ROUTES, json=bad)
    assert answer.status_code == 422
    causes = answer.json()["details"]["causes"]
    assert causes[0]["field"] == "metadata.name"
    assert {cause["field"] for cause in causes[1:] if cause["field"] != "<nil>"} == {
        "spec.loraAdapters[0]",
        "spec.rules[0].modelMatch.uri.regex",
        "spec.rules[0].targetModels[0].weight",
    }


async def test_a_binding_comes_after_its_policy(http: httpx2.AsyncClient) -> None:
    """Admission knows the store: the policy must be there, and its behavior was completed."""
    base = "/apis/registry.volcano.sh/v1alpha1/namespaces/default"
    target = {"targetRef": {"kind": "Deployment", "name": "web"}}
    binding = {
        "metadata": {"name": "b"},
        "spec": {
            "policyRef": {"name": "p"},
            "scalingConfiguration": {"target": target, "minReplicas": 1, "maxReplicas": 2},
        },
    }
    refused = await http.post(f"{base}/autoscalingpolicybindings", json=binding)
    assert refused.status_code == 422
    assert refused.json()["message"].endswith('spec.policyRef.name: Not found: "p"')
    policy = {
        "metadata": {"name": "p"},
        "spec": {"metrics": [{"metricName": "q", "targetValue": "5"}], "behavior": {"scaleUp": None}},
    }
    made = await http.post(f"{base}/autoscalingpolicies", json=policy)
    assert made.json()["spec"]["behavior"]["scaleDown"]["stabilizationWindow"] == "5m"
    assert made.json()["spec"]["behavior"]["scaleUp"]["stablePolicy"]["percent"] == 100
    told = warnings(await http.post(f"{base}/autoscalingpolicybindings", json=binding))
    assert len(told) == 1
    assert "there is no Deployment default/web" in told[0]


async def test_a_pod_that_runs_keeps_its_spec(http: httpx2.AsyncClient) -> None:
    """Its image may change, its command may not; its node is set once."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    assert warnings(await http.post(PODS, json=pod)) == []
    strategic = {"content-type": "application/strategic-merge-patch+json"}

    async def patch(spec: dict[str, Any]) -> httpx2.Response:
        return await http.patch(f"{PODS}/p", json={"spec": spec}, headers=strategic)

    assert (await patch({"containers": [{"name": "c", "image": "i:2"}]})).status_code == 200
    assert (await patch({"nodeName": "n"})).status_code == 200
    assert (await patch({"nodeName": "m"})).status_code == 422
    refused = await patch({"containers": [{"name": "c", "command": ["x"]}]})
    assert refused.status_code == 422
    [cause] = refused.json()["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", "spec")
    assert cause["message"].startswith("Forbidden: pod updates may not change fields other than ")
    assert cause["message"].endswith("changed: spec.containers[0].command")


async def test_a_weight_left_out_beside_others_is_told(http: httpx2.AsyncClient) -> None:
    """On create, where the default would hide it; what is read back and sent again has all weights."""
    mixed = route(weight=10)
    mixed["spec"]["rules"][0]["targetModels"].append({"modelServerName": "t"})
    created = await http.post(ROUTES, json=mixed)
    words = "spec.rules[0].targetModels[1].weight: is not set and counts 100"
    assert sum(words in warning for warning in warnings(created)) == 1
    again = await http.put(f"{ROUTES}/r", json={**created.json(), "status": {}})
    assert again.status_code == 200
    assert not any(words in warning for warning in warnings(again))


async def test_any_name_of_a_field_can_be_warned_of(client: httpx2.AsyncClient) -> None:
    """A header has no control characters; the write had succeeded, and its answer was cut off."""
    names = ["line\nbreak", "null\0byte", "delete\x7f", "ümlaut", '"', "\\"]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}} | dict.fromkeys(names, 1)
    answer = await client.post("/api/v1/namespaces/default/configmaps", json=body)
    assert answer.status_code == 201
    warnings = " ".join(answer.headers.get_list("warning"))
    assert all(shown in warnings for shown in (r"line\x0abreak", r"null\x00byte", r"delete\x7f"))
