"""The kinds of Kthena's registry on the embedded API server, from manifest to status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import yaml

from headgate import api
from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts
from headgate.kubeschema import quantity

Object = dict[str, Any]

GROUP = "/apis/registry.volcano.sh/v1alpha1/namespaces/default"
MODEL = yaml.safe_load("""
apiVersion: registry.volcano.sh/v1alpha1
kind: Model
metadata: {name: chat}
spec:
  name: chat
  owner: search
  backends:
  - name: h100
    type: vLLM
    modelURI: hf://Qwen/Qwen3-8B
    cacheURI: hostpath:///var/cache/models
    envFrom: [{secretRef: {name: hugging-face}}]
    env:
    - {name: HF_ENDPOINT, value: "https://hf-mirror.com/"}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    minReplicas: 1
    maxReplicas: 8
    workers:
    - image: vllm/vllm-openai:v0.11.0
      replicas: 1
      pods: 1
      resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}, requests: {cpu: 500m}}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: In, values: [h100]}]}]
      config: {max-model-len: 1000000, enable_prefix_caching: true, served-model-name: chat}
    loraAdapters: [{name: chat-de, artifactURL: "s3://adapters/chat-de"}]
    autoscalingPolicy:
      metrics: [{metricName: "vllm:num_requests_waiting", targetValue: 500m}]
      behavior:
        scaleUp: {panicPolicy: {period: 1m}}
        scaleDown: {stabilizationWindow: 5m}
  - name: split
    type: vLLMDisaggregated
    modelURI: pvc://weights/qwen
    minReplicas: 1
    maxReplicas: 1
    routeWeight: 0
    workers:
    - {type: prefill, image: "vllm/vllm-openai:v0.11.0", replicas: 2, pods: 1}
    - {type: decode, image: "vllm/vllm-openai:v0.11.0", replicas: 1, pods: 1, config: {}}
  modelMatch:
    headers: {x-tier: {exact: gold}}
""")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client of a server that has Headgate's own kinds."""
    parts = Parts(Config(tmp_path / "state"))
    headers = {"authorization": "Bearer secret", "user-agent": "test/1"}
    transport = httpx2.ASGITransport(application(parts, "secret"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://test", headers=headers) as made:
        yield made
    parts.store.close()


async def apply(client: httpx2.AsyncClient, plural: str, obj: Object) -> httpx2.Response:
    return await client.patch(
        f"{GROUP}/{plural}/{obj['metadata']['name']}",
        params={"fieldManager": "test", "fieldValidation": "Strict"},
        headers={"content-type": "application/apply-patch+yaml"},
        content=yaml.safe_dump(obj),
    )


async def test_a_model_applies_with_its_defaults(client: httpx2.AsyncClient) -> None:
    """What was written stays as it was written; what was left out is filled in, and nothing else."""
    answer = await apply(client, "models", MODEL)
    assert answer.status_code == 201, answer.text
    stored = answer.json()["spec"]
    h100, split = stored["backends"]
    assert (h100["routeWeight"], split["routeWeight"]) == (100, 0)
    assert [worker["type"] for worker in h100["workers"] + split["workers"]] == [
        "server",
        "prefill",
        "decode",
    ]
    policy = h100["autoscalingPolicy"]
    assert policy == {
        "tolerancePercent": 10,
        "metrics": [{"metricName": "vllm:num_requests_waiting", "targetValue": "500m"}],
        "behavior": {
            "scaleUp": {
                "stablePolicy": {
                    "instances": 1,
                    "percent": 100,
                    "period": "15s",
                    "selectPolicy": "Or",
                    "stabilizationWindow": "0s",
                },
                "panicPolicy": {
                    "percent": 1000,
                    "period": "1m",
                    "panicThresholdPercent": 200,
                    "panicModeHold": "60s",
                },
            },
            "scaleDown": {
                "instances": 1,
                "percent": 100,
                "period": "15s",
                "selectPolicy": "Or",
                "stabilizationWindow": "5m",
            },
        },
    }
    for backend in stored["backends"]:
        backend.pop("autoscalingPolicy", None)
        backend.pop("routeWeight")
    wanted = yaml.safe_load(yaml.safe_dump(MODEL))["spec"]
    wanted["backends"][0].pop("autoscalingPolicy")
    wanted["backends"][0]["workers"][0]["type"] = "server"
    wanted["backends"][1].pop("routeWeight")
    assert stored == wanted


async def test_a_stored_model_decodes_into_its_type(client: httpx2.AsyncClient) -> None:
    """Also the free form of an engine's configuration, number for number."""
    answer = await apply(client, "models", MODEL)
    model = msgspec.json.decode(answer.content, type=api.Model)
    worker = model.spec.backends[0].workers[0]
    assert worker.config == {
        "max-model-len": 1000000,
        "enable_prefix_caching": True,
        "served-model-name": "chat",
    }
    assert model.spec.backends[0].lora_adapters[0].artifact_url == "s3://adapters/chat-de"
    assert str(quantity.parse(worker.resources.limits["memory"])) == "64Gi"


async def test_a_status_is_written_apart(client: httpx2.AsyncClient) -> None:
    """A status that comes with the object is ignored; one that comes by itself leaves the rest alone."""
    condition = {
        "type": "Active",
        "status": "False",
        "reason": "ModelProcessing",
        "message": "Model not ready yet",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "conditions": [condition],
        "backendStatuses": [{"name": "h100", "replicas": 1}],
        "observedGeneration": 1,
    }
    created = (await apply(client, "models", MODEL | {"status": status})).json()
    assert "status" not in created
    answer = await client.put(f"{GROUP}/models/chat/status", json=created | {"status": status, "spec": {}})
    assert (answer.status_code, answer.json()["status"]) == (200, status)
    assert answer.json()["spec"] == created["spec"]
    assert answer.json()["metadata"]["generation"] == 1


async def test_everything_wrong_with_a_model_is_said_at_once(client: httpx2.AsyncClient) -> None:
    """Each field at its path, with what would be valid."""
    worker = {"type": "leader", "replicas": -1, "pods": 1_000_001}
    backend = {"name": "H100", "type": "TGI", "modelURI": "https://x", "minReplicas": -1, "workers": [worker]}
    spec = {"name": "Chat", "backends": [backend], "costExpansionRatePercent": 1001}
    answer = await client.post(
        f"{GROUP}/models",
        json={"kind": "Model", "apiVersion": "registry.volcano.sh/v1alpha1", "metadata": {"name": "x"}}
        | {"spec": spec},
    )
    assert answer.status_code == 422
    fields = {cause["field"] for cause in answer.json()["details"]["causes"]}
    assert fields >= {
        "spec.name",
        "spec.costExpansionRatePercent",
        "spec.backends[0].name",
        "spec.backends[0].type",
        "spec.backends[0].modelURI",
        "spec.backends[0].minReplicas",
        "spec.backends[0].maxReplicas",
        "spec.backends[0].workers[0].type",
        "spec.backends[0].workers[0].replicas",
        "spec.backends[0].workers[0].pods",
    }
    assert (
        'supported values: "vLLM", "vLLMDisaggregated", "SGLang", "MindIE", "MindIEDisaggregated"'
        in answer.text.replace("\\", "")
    )


async def test_policies_and_bindings_print_what_they_scale(client: httpx2.AsyncClient) -> None:
    """The columns of kubectl get."""
    version = {"apiVersion": "registry.volcano.sh/v1alpha1"}
    metrics = [{"metricName": "vllm:num_requests_waiting", "targetValue": "500m"}]
    policy = version | {"kind": "AutoscalingPolicy", "metadata": {"name": "p"}, "spec": {"metrics": metrics}}
    scaling = {"target": {"targetRef": {"name": "chat"}}, "minReplicas": 1, "maxReplicas": 4}
    binding = version | {
        "kind": "AutoscalingPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyRef": {"name": "p"}, "scalingConfiguration": scaling},
    }
    for plural, obj, columns, cells in (
        ("autoscalingpolicies", policy, ["Name", "Metric", "Target", "Tolerance", "Ready", "Age"], ["p"]),
        (
            "autoscalingpolicybindings",
            binding,
            [
                *("Name", "Policy", "Target", "Min", "Max", "Current", "Desired"),
                *("Metric", "Value", "Rule", "Mode", "Ready", "Reason", "Age"),
            ],
            ["b", "p", "chat", 1, 4],
        ),
    ):
        assert (await apply(client, plural, obj)).status_code == 201
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        table = (await client.get(f"{GROUP}/{plural}", headers={"accept": accept})).json()
        assert [column["name"] for column in table["columnDefinitions"]] == columns
        assert table["rows"][0]["cells"][: len(cells)] == cells
