"""What Headgate is told: the engines as Pods, a ModelServer that selects them, a ModelRoute to it.

Written through the Kubernetes API that the kubeconfig names, as any user would.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import yaml

import upstream


def declare(kubeconfig: Path, upstreams: Sequence[tuple[str, int]]) -> None:
    """Create one Pod per engine, a ModelServer that selects them, and a ModelRoute to it."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    trust = ssl.create_default_context(cadata=authority)
    headers = {"authorization": f"Bearer {user['token']}"}
    with httpx2.Client(base_url=cluster["server"], verify=trust, headers=headers) as client:
        pods = "/api/v1/namespaces/default/pods"
        networking = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
        for number, address in enumerate(upstreams):
            _post(client, pods, _pod(number, address))
            _patch_status(client, f"{pods}/engine-{number}/status", address)
        _post(client, f"{networking}/modelservers", _model_server(upstreams[0][1]))
        _post(client, f"{networking}/modelroutes", _model_route())


def _post(client: httpx2.Client, path: str, document: dict[str, Any]) -> None:
    reply = client.post(path, json=document)
    if reply.status_code != 201:
        raise RuntimeError(f"POST {path}: {reply.status_code} {reply.text[:200]}")


def _patch_status(client: httpx2.Client, path: str, address: tuple[str, int]) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": address[0], "podIPs": [{"ip": address[0]}], "conditions": [ready]}
    reply = client.patch(
        path,
        content=json.dumps({"status": status}),
        headers={"content-type": "application/merge-patch+json"},
    )
    if reply.status_code != 200:
        raise RuntimeError(f"PATCH {path}: {reply.status_code} {reply.text[:200]}")


def _pod(number: int, address: tuple[str, int]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"engine-{number}",
            "labels": {"app": "bench"},
            "annotations": {"headgate.dev/address": f"{address[0]}:{address[1]}"},
        },
        "spec": {"containers": [{"name": "engine", "image": "bench"}]},
    }


def _model_server(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "bench"},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": "bench"}},
            "workloadPort": {"port": port},
        },
    }


def _model_route() -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "bench"},
        "spec": {
            "modelName": upstream.MODEL,
            "rules": [{"name": "all", "targetModels": [{"modelServerName": "bench"}]}],
        },
    }
