"""The objects of models that are autoscaled: simulated engines, a pool or a Model, a policy and a binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

PROMPT_TOKEN_S = 0.001
"""What an engine needs for a token of a prompt, which is nearly all of its work."""
ENGINE_FLAGS = (
    *("--per-prefill-token-s", str(PROMPT_TOKEN_S), "--per-start-s", "0", "--base-s", "0.01"),
    *("--per-decode-sequence-s", "0", "--per-kv-token-s", "0", "--no-enable-prefix-caching"),
)
TARGET = 0.7
"""The share of its time that each engine is to work."""
NAMESPACE = "default"
SURGE = {"percent": 1000, "period": "1s", "panicThresholdPercent": 200, "panicModeHold": "30s"}


class Scaled(NamedTuple):
    """A model that is scaled, and how requests reach it."""

    name: str
    kind: Literal["ModelServer", "InferencePool", "Model"] = "ModelServer"
    least: int = 1
    most: int = 4
    grace: str = ""
    """Without requests for so long, the last replica goes; empty: it stays."""
    down_window: str = "30s"

    @property
    def public(self) -> str:
        """What requests call it by."""
        return self.name

    def objects(self) -> list[dict[str, Any]]:
        """In the order in which they are applied."""
        if self.kind == "Model":
            return [self._model(), self._policy(), self._binding()]
        found = [self._deployment(), self._policy(), self._binding()]
        if self.kind == "InferencePool":
            return [*found, self._pool()]
        return [*found, self._server(), self._route()]

    def _deployment(self) -> dict[str, Any]:
        address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        container = {
            "name": "engine",
            "image": "headgate",
            "command": ["headgate", "simulate", "engine"],
            "args": [f"--model={self.name}", "--port=8000", "--host=$(POD_IP)", *ENGINE_FLAGS],
            "env": [address, name],
            "ports": [{"name": "http", "containerPort": 8000}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
        }
        labels = {"app": self.name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": self.least, "selector": {"matchLabels": labels}, "template": template}
        return _object("apps/v1", "Deployment", self.name, spec)

    def _policy(self) -> dict[str, Any]:
        spec = {
            "metrics": [{"metricName": "headgate:work_seconds", "targetValue": str(TARGET)}],
            "behavior": {
                "scaleUp": {
                    "stablePolicy": {"instances": 4, "percent": 100, "period": "15s"},
                    "panicPolicy": SURGE,
                },
                "scaleDown": {
                    "instances": 2,
                    "percent": 50,
                    "period": "15s",
                    "stabilizationWindow": self.down_window,
                },
            },
        }
        return _object("registry.volcano.sh/v1alpha1", "AutoscalingPolicy", self.name, spec)

    def _binding(self) -> dict[str, Any]:
        kinds = {"Model": ("registry.volcano.sh/v1alpha1", "Model")}
        version, kind = kinds.get(self.kind, ("apps/v1", "Deployment"))
        target = {"targetRef": {"apiVersion": version, "kind": kind, "name": self.name}}
        bounds = {"minReplicas": self.least, "maxReplicas": self.most}
        spec = {
            "policyRef": {"name": self.name},
            "scalingConfiguration": {"target": target, **bounds},
        }
        notes = {"headgate.dev/scale-to-zero-grace-period": self.grace} if self.grace else {}
        return _object("registry.volcano.sh/v1alpha1", "AutoscalingPolicyBinding", self.name, spec, notes)

    def _server(self) -> dict[str, Any]:
        spec = {
            "inferenceEngine": "vLLM",
            "model": self.name,
            "workloadSelector": {"matchLabels": {"app": self.name}},
            "workloadPort": {"port": 8000},
        }
        return _object("networking.volcano.sh/v1alpha1", "ModelServer", self.name, spec)

    def _route(self) -> dict[str, Any]:
        rule = {"name": "all", "targetModels": [{"modelServerName": self.name}]}
        spec = {"modelName": self.name, "rules": [rule]}
        return _object("networking.volcano.sh/v1alpha1", "ModelRoute", self.name, spec)

    def _pool(self) -> dict[str, Any]:
        spec = {
            "selector": {"matchLabels": {"app": self.name}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "unused", "port": {"number": 9002}},
        }
        notes = {"headgate.dev/models": self.name}
        return _object("inference.networking.k8s.io/v1", "InferencePool", self.name, spec, notes)

    def _model(self) -> dict[str, Any]:
        backend = {
            "name": "engine",
            "type": "vLLM",
            "modelURI": "pvc://weights",
            "minReplicas": 1,
            "maxReplicas": 1,  # the binding decides
            "workers": [{"type": "server"}],
        }
        spec = {"backends": [backend]}
        return _object("registry.volcano.sh/v1alpha1", "Model", self.name, spec)


def _object(
    version: str, kind: str, name: str, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}
