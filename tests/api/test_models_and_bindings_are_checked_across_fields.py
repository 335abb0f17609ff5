"""Model, AutoscalingPolicy and AutoscalingPolicyBinding: what their schemas demand beyond one field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.kubeschema import structural

Object = dict[str, Any]

SCHEMAS = {
    d["spec"]["names"]["kind"]: d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for d in api.custom_definitions()
}
METRICS = [{"metricName": "vllm:num_requests_waiting", "targetValue": 4}]
ONE = {"target": {"targetRef": {"kind": "Model", "name": "chat"}}, "minReplicas": 1, "maxReplicas": 4}


def judged(kind: str, spec: Object) -> list[str]:
    """What is wrong with an object of this spec."""
    obj: Object = {"apiVersion": "any", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    assert structural.prune(SCHEMAS[kind], obj) == []
    structural.default(SCHEMAS[kind], obj)
    errors = structural.validate(SCHEMAS[kind], obj)
    return [f"{error.field}: {error.detail}" for error in errors if error.field != structural.NO_FIELD]


def backend(**fields: Any) -> Object:
    return {
        "name": "gpu",
        "type": "vLLM",
        "modelURI": "hf://Qwen/Qwen3-8B",
        "minReplicas": 1,
        "maxReplicas": 1,
        "workers": [{"image": "vllm/vllm-openai:v0.11.0"}],
    } | fields


@pytest.mark.parametrize(
    "configuration",
    [{"scalingConfiguration": ONE}, {"optimizerConfiguration": {"params": [ONE | {"cost": 3}]}}],
)
def test_a_binding_scales_one_target_or_splits_among_several(configuration: Object) -> None:
    """Either is enough."""
    assert judged("AutoscalingPolicyBinding", {"policyRef": {"name": "p"}, **configuration}) == []


@pytest.mark.parametrize(
    "configuration",
    [{}, {"scalingConfiguration": ONE, "optimizerConfiguration": {"params": [ONE]}}],
)
def test_a_binding_with_both_or_neither_is_refused(configuration: Object) -> None:
    """Nobody could tell which of the two decides."""
    assert judged("AutoscalingPolicyBinding", {"policyRef": {"name": "p"}, **configuration}) == [
        "spec: exactly one of scalingConfiguration and optimizerConfiguration must be set"
    ]


@pytest.mark.parametrize("reference", [{}, {"name": ""}])
def test_a_binding_names_its_policy(reference: Object) -> None:
    """A reference without a name would refer to nothing."""
    assert judged("AutoscalingPolicyBinding", {"policyRef": reference, "scalingConfiguration": ONE}) == [
        "spec.policyRef.name: must name an AutoscalingPolicy in the same namespace"
    ]


def test_backends_are_told_apart_by_name() -> None:
    """Two of one name are refused, also two variables of one name."""
    assert judged("Model", {"backends": [backend(), backend(name="cpu")]}) == []
    assert judged("Model", {"backends": [backend(), backend()]}) == ["spec.backends[1]: "]
    twice = [{"name": "HF_ENDPOINT", "value": value} for value in ("a", "b")]
    assert judged("Model", {"backends": [backend(env=twice)]}) == ["spec.backends[0].env[1]: "]


@pytest.mark.parametrize("value", [4, "4", "500m", "1.5", "2e3", "1Ki", ".5"])
def test_target_values_are_quantities(value: int | str) -> None:
    """As text in any of their forms, or as whole numbers."""
    metrics = [{"metricName": "m", "targetValue": value}]
    assert judged("AutoscalingPolicy", {"metrics": metrics}) == []


@pytest.mark.parametrize("value", ["", "four", "1 Gi", "1K", "1_000", 0.5, True, None])
def test_target_values_that_are_no_quantities_are_refused(value: object) -> None:
    """At their place, whatever they are."""
    errors = judged("AutoscalingPolicy", {"metrics": [{"metricName": "m", "targetValue": value}]})
    assert errors
    assert all(error.startswith("spec.metrics[0].targetValue: ") for error in errors)


def test_environment_resources_and_affinity_are_complete() -> None:
    """No field of Kubernetes 1.33 is dropped from them."""
    key = {"name": "o", "key": "k", "optional": True}
    env = [
        {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        {
            "name": "B",
            "valueFrom": {"resourceFieldRef": {"containerName": "c", "resource": "r", "divisor": "1Mi"}},
        },
        {"name": "C", "valueFrom": {"configMapKeyRef": key}},
        {"name": "D", "valueFrom": {"secretKeyRef": key}},
    ]
    env_from = [
        {"prefix": "P_", "configMapRef": {"name": "c", "optional": True}},
        {"secretRef": {"name": "s"}},
    ]
    resources = {
        "limits": {"nvidia.com/gpu": 1, "memory": "64Gi"},
        "requests": {"cpu": "500m"},
        "claims": [{"name": "gpu", "request": "one"}],
    }
    requirement = {"key": "gpu", "operator": "In", "values": ["h100"]}
    node = {"matchExpressions": [requirement], "matchFields": [requirement]}
    pods = {
        "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [requirement]},
        "matchLabelKeys": ["k"],
        "mismatchLabelKeys": ["l"],
        "namespaces": ["n"],
        "namespaceSelector": {},
        "topologyKey": "zone",
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    near = {required: [pods], preferred: [{"weight": 5, "podAffinityTerm": pods}]}
    affinity = {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [node]},
            preferred: [{"weight": 1, "preference": node}],
        },
        "podAffinity": near,
        "podAntiAffinity": near,
    }
    worker = {
        "image": "i",
        "resources": resources,
        "affinity": affinity,
        "config": {"any": [{"thing": None}]},
    }
    spec = {"backends": [backend(env=env, envFrom=env_from, workers=[worker])]}
    assert judged("Model", spec) == []
    model = msgspec.convert({"spec": spec}, api.Model)
    assert msgspec.to_builtins(model)["spec"]["backends"][0]["env"] == env
    written = msgspec.to_builtins(model)["spec"]["backends"][0]["workers"][0]
    assert (written["affinity"]["nodeAffinity"], written["resources"]) == (
        affinity["nodeAffinity"],
        resources,
    )


def test_a_block_of_behavior_that_is_absent_behaves_like_an_empty_one() -> None:
    """The decoded object has the same numbers either way; panic has to be asked for."""
    spec: Object = {"metrics": METRICS, "behavior": {"scaleDown": {}, "scaleUp": {"stablePolicy": {}}}}
    assert judged("AutoscalingPolicy", spec) == []
    written = msgspec.convert({"spec": spec}, api.AutoscalingPolicy).spec.behavior
    absent = msgspec.convert({"spec": {"metrics": METRICS}}, api.AutoscalingPolicy).spec.behavior
    assert written == absent
    assert (absent.scale_down.instances, absent.scale_down.percent, absent.scale_down.period) == (
        1,
        100,
        "15s",
    )
    assert absent.scale_up.panic_policy is None


def test_a_panic_policy_says_for_which_time() -> None:
    """Its period is the only field without a default."""
    panic: Object = {"panicPolicy": {}}
    assert judged("AutoscalingPolicy", {"metrics": METRICS, "behavior": {"scaleUp": panic}}) == [
        "spec.behavior.scaleUp.panicPolicy.period: "
    ]
    assert panic["panicPolicy"] == {"percent": 1000, "panicThresholdPercent": 200, "panicModeHold": "60s"}


def test_a_model_has_a_bounded_number_of_downloads() -> None:
    """A few lines could ask for very many containers."""
    adapters = [{"name": f"a{i}", "artifactURL": "hf://a/b"} for i in range(100)]
    workers = [{"type": "prefill"}, {"type": "decode"}] * 100
    large = backend(type="vLLMDisaggregated", workers=workers, loraAdapters=adapters)
    (told,) = judged("Model", {"backends": [large]})
    assert told == (
        "spec.backends: workers times their adapters (and the weights) add up to 20200 downloads; "
        "at most 10000 are allowed"
    )
    assert judged("Model", {"backends": [large | {"workers": workers[:90]}]}) == []
