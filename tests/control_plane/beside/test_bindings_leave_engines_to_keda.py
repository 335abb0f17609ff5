"""An AutoscalingPolicyBinding, even an older one, leaves its workload to the ScaledObject that scales it."""

from __future__ import annotations

import time

import pytest

SLOW_S = 240.0
QUIET_S = 20.0
"""Longer than the passes of all that may scale."""
pytestmark = [pytest.mark.timeout(900), pytest.mark.parametrize("helm", ["3"], indirect=True)]


def test_a_binding_yields_until_the_scaled_object_is_gone(
    cluster, model, keda, start, run_prometheus, chart, unused_tcp_port_factory, eventually
):
    """Also at zero replicas, which are fewer than the binding's minimum."""
    prometheus = run_prometheus(chart, "gateway")
    port = unused_tcp_port_factory()
    gateways = [f"--gateway={url.replace('8080', '9090')}" for url in model.gateways]
    words = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={model.namespace}", f"--metrics-port={port}")
    start("controller", "controller", *words, *gateways)
    cluster.apply(*_binding(), namespace=model.namespace)
    eventually(lambda: _ready(model)[:2] == ("True", "Scaling"))

    scaled = {"http://prometheus.monitoring:9090": prometheus.url, "Period: 300": "Period: 10"}
    cluster.apply(model.manifest("ScaledObject", **scaled), namespace=model.namespace)
    eventually(lambda: _ready(model)[:2] == ("False", "Conflict"), SLOW_S)
    assert f"HorizontalPodAutoscaler {model.namespace}/keda-hpa-chat" in _ready(model)[2]
    eventually(lambda: model.replicas() == 0, SLOW_S)
    began = time.monotonic()
    while time.monotonic() - began < QUIET_S:
        assert model.replicas() == 0
        assert _ready(model)[:2] == ("False", "Conflict")

    cluster.kubectl("delete", "scaledobject", "chat", "-n", model.namespace)
    eventually(lambda: _ready(model)[:2] == ("True", "Scaling"))
    eventually(lambda: model.replicas() == 1)


def _ready(model) -> tuple[str, str, str]:
    """Status, reason and message of the condition of the binding."""
    conditions = model.get("autoscalingpolicybinding").get("status", {}).get("conditions", [])
    found = [each for each in conditions if each["type"] == "Ready"]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")


def _binding() -> list[dict]:
    policy = {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicy",
        "metadata": {"name": "chat"},
        "spec": {"metrics": [{"metricName": "headgate:work_seconds", "targetValue": "0.7"}]},
    }
    target = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}}
    binding = {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicyBinding",
        "metadata": {"name": "chat"},
        "spec": {
            "policyRef": {"name": "chat"},
            "scalingConfiguration": {"target": target, "minReplicas": 1, "maxReplicas": 3},
        },
    }
    return [policy, binding]
