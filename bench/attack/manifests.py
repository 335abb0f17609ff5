"""The objects of the install: Pods with an address, and routes to them."""

from __future__ import annotations

from typing import Any

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
_NETWORKING = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
SERVERS, ROUTES = f"{_NETWORKING}/modelservers", f"{_NETWORKING}/modelroutes"
POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools"
MERGE = "application/merge-patch+json"
ELSEWHERE = "elsewhere"
"""The node name of Pods that no node of this install runs."""
RUNNING = {
    "phase": "Running",
    "podIP": "127.0.0.1",
    "conditions": [{"type": "Ready", "status": "True"}],
}


def named(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def pod(name: str, port: int, app: str = "") -> dict[str, Any]:
    """A Pod for an engine that is already listening."""
    containers = [{"name": "engine", "image": "engine"}]
    made = named("v1", "Pod", name, spec={"nodeName": ELSEWHERE, "containers": containers})
    made["metadata"] |= {
        "labels": {"app": app or name},
        "annotations": {"headgate.dev/address": f"127.0.0.1:{port}", "headgate.dev/port": str(port)},
    }
    return made


def server(name: str, port: int) -> dict[str, Any]:
    """The pool of all Pods whose app has this name."""
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"app": name}},
        "workloadPort": {"port": port},
    }
    return named("networking.volcano.sh/v1alpha1", "ModelServer", name, spec=spec)


def route(model: str, server: str) -> dict[str, Any]:
    rules = [{"name": "all", "targetModels": [{"modelServerName": server}]}]
    return named(
        "networking.volcano.sh/v1alpha1", "ModelRoute", model, spec={"modelName": model, "rules": rules}
    )


def pool_of_http2(name: str, port: int, model: str) -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "targetPorts": [{"number": port}],
        "appProtocol": "kubernetes.io/h2c",
        "endpointPickerRef": {"name": "none", "port": {"number": 9002}},
    }
    made = named("inference.networking.k8s.io/v1", "InferencePool", name, spec=spec)
    made["metadata"]["annotations"] = {"headgate.dev/models": model}
    return made
