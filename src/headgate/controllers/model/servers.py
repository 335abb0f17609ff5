"""The ModelServer of a backend: which Pods serve, and how they are reached."""

from __future__ import annotations

from typing import Any

from headgate import api
from headgate.controllers.model import names
from headgate.controllers.model.backends import Backend
from headgate.controllers.model.scope import Child, Scope
from headgate.engines.launch import DEFAULT_PORT


def of_backend(scope: Scope, backend: Backend) -> Child:
    """The ModelServer of the backend.

    Nothing in it depends on the config of its workers but the connector: model and port hold for Pods of
    every revision, since each engine also serves the name of the Model, and Pods with another port have an
    annotation.
    """
    labels = names.labels(scope.model, backend.spec.name)
    selector: dict[str, Any] = {
        "matchLabels": {
            names.MODEL_UID: labels[names.MODEL_UID],
            names.BACKEND_NAME: labels[names.BACKEND_NAME],
            names.ENTRY: "true",
        }
    }
    spec: dict[str, Any] = {
        "model": names.served(scope.model),
        "inferenceEngine": backend.launcher.in_model_server,
        "workloadSelector": selector,
        "workloadPort": {"port": DEFAULT_PORT},
        "trafficPolicy": {"retry": {"attempts": 5, "retryInterval": "0s"}},
    }
    connector = next((worker.launch.connector for worker in backend.workers if worker.launch.connector), "")
    if connector:
        selector["pdGroup"] = {
            "groupKey": names.PD_GROUP,
            "prefillLabels": {names.ROLE: "prefill"},
            "decodeLabels": {names.DECODES: "true"},
        }
        spec["kvConnector"] = {"type": connector}
    return scope.child(api.ModelServer, backend.server, spec, backend.spec.name)
