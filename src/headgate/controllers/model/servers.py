"""The ModelServer of a backend: which Pods serve, and how they are reached."""

from __future__ import annotations

from headgate import api
from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model import names
from headgate.controllers.model.scope import Child, Scope
from headgate.engines.launch import DEFAULT_PORT


def of_backend(scope: Scope, backend: ModelBackend) -> Child:
    """The ModelServer of the backend."""
    labels = names.labels(scope.model, backend.name)
    selected = {label: labels[label] for label in (names.MODEL_UID, names.BACKEND_NAME)}
    spec = {
        "model": names.served(scope.model),
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {**selected, names.ENTRY: "true"}},
        "workloadPort": {"port": DEFAULT_PORT},
        "trafficPolicy": {"retry": {"attempts": 5, "retryInterval": "0s"}},
    }
    return scope.child(api.ModelServer, names.of_backend(scope.model, backend.name), spec, backend.name)
