"""What Headgate is told: the engines as Pods, a ModelServer that selects them, a ModelRoute to it.

Written through the Kubernetes API that the kubeconfig names, as any user would.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import yaml

import upstream

NAME = "bench"
"""Of the one ModelServer, and of the ModelRoute."""


def declare(
    kubeconfig: Path,
    upstreams: Sequence[tuple[str, int]],
    apart: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    header: str = "",
) -> None:
    """Create one Pod per engine, a ModelServer that selects them, and a ModelRoute to it.

    With `apart` there is a ModelServer for each of these values of `header` instead, of the engines that it
    has for itself; all of them are in `upstreams`. Requests without it go to the first.
    """
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    trust = ssl.create_default_context(cadata=authority)
    headers = {"authorization": f"Bearer {user['token']}"}
    of_pool = {address: pool for pool, engines in (apart or {}).items() for address in engines}
    with httpx2.Client(base_url=cluster["server"], verify=trust, headers=headers) as client:
        pods = "/api/v1/namespaces/default/pods"
        networking = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
        for number, address in enumerate(upstreams):
            _post(client, pods, _pod(number, address, of_pool.get(address, NAME)))
            _patch_status(client, f"{pods}/engine-{number}/status", address)
        for pool in apart or (NAME,):
            _post(client, f"{networking}/modelservers", _model_server(pool, upstreams[0][1]))
        rules = [_rule(pool, header) for pool in apart or ()]
        rules.append(_rule(next(iter(apart or (NAME,)))))
        _post(client, f"{networking}/modelroutes", _model_route(rules))


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


def _pod(number: int, address: tuple[str, int], pool: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"engine-{number}",
            "labels": {"app": pool},
            "annotations": {"headgate.dev/address": f"{address[0]}:{address[1]}"},
        },
        "spec": {"containers": [{"name": "engine", "image": "bench"}]},
    }


def _model_server(pool: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": pool},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": pool}},
            "workloadPort": {"port": port},
        },
    }


def _rule(pool: str, header: str = "") -> dict[str, Any]:
    targets = [{"modelServerName": pool}]
    if not header:
        return {"name": "all", "targetModels": targets}
    match = {"headers": {header: {"exact": pool}}}
    return {"name": pool, "modelMatch": match, "targetModels": targets}


def _model_route(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": NAME},
        "spec": {"modelName": upstream.MODEL, "rules": rules},
    }
