"""The Pod of a worker: downloads, sidecar and engine."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.api.kthena_registry import ModelBackend, ModelWorker
from headgate.controllers.model import names, volumes
from headgate.controllers.model.scope import Scope
from headgate.controllers.model.settings import RUNTIME_PORT
from headgate.engines.launch import POD_IP, Launch, Launcher

GRACE_S = 300
SHARED = "/run/headgate"
TOKEN_DIRECTORY = "/etc/headgate/runtime"  # noqa: S105 - a path


def template(
    scope: Scope,
    backend: ModelBackend,
    worker: ModelWorker,
    launcher: Launcher,
    launch: Launch,
    labels: dict[str, str],
) -> dict[str, Any]:
    """The Pod template of a worker."""
    store = volumes.cache(backend)
    shared = volumes.Store({"name": "headgate", "emptyDir": {}}, SHARED)
    secret = names.runtime_secret(scope.model)
    token = volumes.Store(
        {"name": "runtime-token", "secret": {"secretName": secret}}, TOKEN_DIRECTORY, read_only=True
    )
    image = scope.settings.headgate_image
    weights = volumes.directory(store.path, backend.model_uri)
    download = {
        "name": "download",
        "image": image,
        "command": ["headgate", "download"],
        "args": ["--source", backend.model_uri, "--output-dir", weights, "--status-dir", SHARED],
        "env": _env(backend, ("ENDPOINT", "HF_ENDPOINT")),
        "envFrom": _builtins(backend.env_from),
        "volumeMounts": [store.mount, shared.mount],
    }
    runtime = {
        "name": "runtime",
        "image": image,
        "restartPolicy": "Always",
        "command": ["headgate", "runtime"],
        "args": [
            "--host",
            POD_IP,
            "--port",
            str(RUNTIME_PORT),
            "--engine-base-url",
            f"http://{POD_IP}:{launch.port}",
        ],
        "env": POD_FIELDS,
        "ports": [{"name": "runtime", "containerPort": RUNTIME_PORT}],
        "volumeMounts": [store.mount, shared.mount, token.mount],
    }
    engine = {
        "name": "engine",
        "image": worker.image or launcher.image,
        "command": list(launch.command),
        "env": [*POD_FIELDS, *_builtins(backend.env)],
        "envFrom": _builtins(backend.env_from),
        "resources": msgspec.to_builtins(worker.resources),
        "ports": [{"name": "http", "containerPort": launch.port}],
        "readinessProbe": {"httpGet": {"path": launch.health_path, "port": launch.port}, "periodSeconds": 5},
        "lifecycle": {"preStop": {"httpGet": {"path": "/drain", "port": RUNTIME_PORT}}},
        "volumeMounts": [{**store.mount, "readOnly": True}],
    }
    return {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": GRACE_S,
            "initContainers": [runtime, download],
            "containers": [engine],
            "volumes": [store.volume, shared.volume, token.volume],
        },
    }


POD_FIELDS = [
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
]


def _env(backend: ModelBackend, wanted: tuple[str, ...]) -> list[Any]:
    return _builtins([each for each in backend.env if each.name in wanted])


def _builtins(values: list[Any]) -> list[Any]:
    found: list[Any] = msgspec.to_builtins(values)
    return found
