"""One example of each form: what it becomes, and what the report says."""

from __future__ import annotations

from typing import Any

import yaml

from headgate.api import forms
from headgate.api.forms import Conversion


def converted(text: str) -> Conversion:
    obj = yaml.safe_load(text)
    return forms.convert(obj, forms.FORMS[obj["apiVersion"], obj["kind"]])


def specs(conversion: Conversion) -> dict[str, Any]:
    return {each["kind"]: each["spec"] for each in conversion.objects}


def test_a_route_keeps_its_rules_but_not_its_gateways() -> None:
    conversion = converted("""
apiVersion: networking.serving.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {name: chat}
spec:
  modelName: chat
  parentRefs: [{name: default}]
  rules:
  - targetModels:
    - {modelServerName: a, weight: 1}
    - {externalModelProviderName: b, weight: 8}
    - {modelServerName: c, weight: 2}
""")
    targets = [{"modelServerName": "a", "weight": 1}, {"modelServerName": "c", "weight": 2}]
    assert specs(conversion) == {"ModelRoute": {"modelName": "chat", "rules": [{"targetModels": targets}]}}
    assert conversion.objects[0]["apiVersion"] == "networking.volcano.sh/v1alpha1"
    assert {each.path for each in conversion.differences} == {
        "spec.parentRefs",
        "spec.rules[0].targetModels[1]",
    }


def test_a_rule_of_external_targets_alone_stays_an_invalid_rule() -> None:
    """Without the rule, its requests would silently reach the next one."""
    conversion = converted("""
apiVersion: networking.serving.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {name: chat}
spec:
  modelName: chat
  rules: [{targetModels: [{externalModelProviderName: b}]}]
""")
    assert specs(conversion)["ModelRoute"]["rules"] == [{"targetModels": []}]


def test_a_booster_becomes_a_model_with_one_backend() -> None:
    conversion = converted("""
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelBooster
metadata: {name: chat}
spec:
  name: chat
  backend:
    name: main
    type: vLLM
    modelURI: hf://a/b
    replicas: 2
    schedulerName: volcano
    workers: [{type: server, image: vllm, pods: 1, config: {max-model-len: 4096}}]
""")
    assert specs(conversion)["Model"] == {
        "name": "chat",
        "backends": [
            {
                "name": "main",
                "type": "vLLM",
                "modelURI": "hf://a/b",
                "minReplicas": 2,
                "maxReplicas": 2,
                "workers": [
                    {"type": "server", "image": "vllm", "pods": 1, "config": {"max-model-len": 4096}}
                ],
            }
        ],
    }
    assert [each.path for each in conversion.differences] == ["spec.backend.schedulerName"]


def test_a_policy_of_several_backends_stays_one() -> None:
    """A ModelBooster had a list of backends at first; only with one does it not matter whose policy it is."""
    policy = "{metrics: [{METRIC: waiting, targetValue: 4}]}"
    booster = f"""
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelBooster
metadata: {{name: chat}}
spec:
  BACKENDS
  autoscalingPolicy: {policy}
"""
    several = specs(
        converted(
            booster.replace("BACKENDS", "backends: [{name: a}, {name: b}]").replace("METRIC", "metricName")
        )
    )["Model"]
    assert several["autoscalingPolicy"] == {"metrics": [{"metricName": "waiting", "targetValue": 4}]}
    assert several["backends"] == [{"name": "a"}, {"name": "b"}]
    one = specs(
        converted(booster.replace("BACKENDS", "backend: {name: a, replicas: 1}").replace("METRIC", "name"))
    )
    assert one["Model"]["backends"][0]["autoscalingPolicy"] == several["autoscalingPolicy"]


def test_a_policy_with_a_target_becomes_a_policy_and_a_binding() -> None:
    conversion = converted("""
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: chat, namespace: llm}
spec:
  metrics: [{name: "vllm:num_requests_waiting", targetValue: 4}]
  heterogeneousTarget:
    costExpansionRatePercent: 150
    params:
    - cost: 3
      minReplicas: 1
      maxReplicas: 4
      target:
        targetRef: {kind: Deployment, name: big}
        metricSources:
          "vllm:num_requests_waiting":
            pod: {uri: /metrics, port: 8000, labelSelector: {matchLabels: {r: s}}}
""")
    found = specs(conversion)
    assert found["AutoscalingPolicy"] == {
        "metrics": [{"metricName": "vllm:num_requests_waiting", "targetValue": 4}]
    }
    assert found["AutoscalingPolicyBinding"] == {
        "policyRef": {"name": "chat"},
        "optimizerConfiguration": {
            "costExpansionRatePercent": 150,
            "params": [
                {
                    "cost": 3,
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "target": {
                        "targetRef": {"kind": "Deployment", "name": "big"},
                        "metricEndpoint": {"uri": "/metrics", "port": 8000},
                        "additionalMatchLabels": {"r": "s"},
                    },
                }
            ],
        },
    }
    assert [each["metadata"] for each in conversion.objects] == [{"name": "chat", "namespace": "llm"}] * 2
    assert conversion.differences == ()


def test_a_binding_of_its_own_keeps_its_policy() -> None:
    conversion = converted("""
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: chat}
spec:
  policyRef: {name: chat}
  homogeneousTarget:
    minReplicas: 1
    maxReplicas: 4
    target: {targetRef: {name: chat}, metricEndpoint: {port: 8000, labelSelector: {matchLabels: {a: b}}}}
""")
    assert specs(conversion)["AutoscalingPolicyBinding"] == {
        "policyRef": {"name": "chat"},
        "scalingConfiguration": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "target": {
                "targetRef": {"name": "chat"},
                "metricEndpoint": {"port": 8000},
                "additionalMatchLabels": {"a": "b"},
            },
        },
    }


def test_a_pool_of_v1alpha2_becomes_one_of_v1() -> None:
    conversion = converted("""
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {app: chat}
  targetPortNumber: 8000
  extensionRef: {name: picker, failureMode: FailOpen}
""")
    assert specs(conversion)["InferencePool"] == {
        "selector": {"matchLabels": {"app": "chat"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "picker", "failureMode": "FailOpen", "port": {"number": 9002}},
    }


def test_a_model_of_v1alpha2_follows_its_pool() -> None:
    """Whether it names the group of the pool or has the default."""
    for written in ("", "group: inference.networking.x-k8s.io, "):
        conversion = converted(f"""
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {{name: chat}}
spec: {{modelName: chat, criticality: Standard, poolRef: {{{written}name: chat}}}}
""")
        assert specs(conversion)["InferenceModel"] == {
            "modelName": "chat",
            "criticality": "Default",
            "poolRef": {"group": "inference.networking.k8s.io", "name": "chat"},
        }


VARIANT = """
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama-a100}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}
  modelID: meta/llama
  variantID: meta/llama-A100-1
  accelerator: A100
  acceleratorCount: 1
  variantCost: "COST"
"""


def test_a_variant_of_0_4_loses_only_what_changes_nothing() -> None:
    """The workload of the same name, and the default cost."""
    conversion = converted(VARIANT.replace("NAME", "llama-a100").replace("COST", "10.0"))
    assert conversion.differences == ()
    assert "scaleTargetRef" not in specs(conversion)["VariantAutoscaling"]


def test_a_variant_of_another_workload_is_told() -> None:
    conversion = converted(VARIANT.replace("NAME", "other").replace("COST", "40"))
    assert [each.path for each in conversion.differences] == ["spec.scaleTargetRef.name", "spec.variantCost"]


def test_a_variant_of_the_first_releases_is_named_after_its_accelerator() -> None:
    conversion = converted("""
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {name: llama}
spec:
  modelID: meta/llama
  sloClassRef: {name: classes, key: premium.yaml}
  modelProfile:
    accelerators:
    - acc: A100
      accCount: 2
      perfParms: {decodeParms: {alpha: "1", beta: "2"}, prefillParms: {gamma: "3", delta: "4"}}
      maxBatchSize: 8
    - {acc: L40S, accCount: 1}
""")
    assert specs(conversion)["VariantAutoscaling"] == {
        "modelID": "meta/llama",
        "variantID": "meta/llama-A100-2",
        "accelerator": "A100",
        "acceleratorCount": 2,
        "sloClassRef": {"name": "classes", "key": "premium.yaml"},
        "variantProfile": {
            "perfParms": {
                "decodeParms": {"alpha": "1", "beta": "2"},
                "prefillParms": {"gamma": "3", "delta": "4"},
            },
            "maxBatchSize": 8,
        },
    }
    assert [each.path for each in conversion.differences] == ["spec.modelProfile.accelerators[1]"]
