"""Headgate's objects: the engines as Pods, a ModelServer that selects them, and ModelRoutes to it.

Created through the Kubernetes API of the kubeconfig, as by any user.
"""

from __future__ import annotations

import base64
import functools
import json
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import yaml

import upstream

NAME = "bench"
"""Name of the ModelServer and of the ModelRoute."""
_NETWORKING = "/apis/networking.volcano.sh/v1alpha1/namespaces/default"
_AT_ONCE = 16


def declare(
    kubeconfig: Path,
    upstreams: Sequence[tuple[str, int]],
    apart: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    header: str = "",
) -> None:
    """Create one Pod per engine, a ModelServer that selects them, and a ModelRoute to it.

    `apart`: engines by value of `header`, all of them in `upstreams`. Each value gets its own ModelServer.
    Requests without the header go to the first.
    """
    of_pool = {address: pool for pool, engines in (apart or {}).items() for address in engines}
    with client(kubeconfig) as connected:
        declare_pods(connected, upstreams, NAME, of_pool)
        for pool in apart or (NAME,):
            post(connected, f"{_NETWORKING}/modelservers", _model_server(pool, upstreams[0][1]))
        rules = [_rule(pool, header) for pool in apart or ()]
        rules.append(_rule(next(iter(apart or (NAME,)))))
        post(connected, f"{_NETWORKING}/modelroutes", _model_route(NAME, upstream.MODEL, rules))


def declare_pods(
    connected: httpx2.Client,
    upstreams: Sequence[tuple[str, int]],
    label: str,
    labels: Mapping[tuple[str, int], str] | None = None,
) -> None:
    """Create one ready Pod per engine, with the label `app`: by its address, or `label`."""
    pods = "/api/v1/namespaces/default/pods"
    for number, address in enumerate(upstreams):
        post(connected, pods, _pod(number, address, (labels or {}).get(address, label)))
        _patch_status(connected, f"{pods}/engine-{number}/status", address)


def declare_routes(kubeconfig: Path, names: Sequence[str]) -> None:
    """Create a ModelRoute to the ModelServer for each name, which is also the name of its model."""
    with client(kubeconfig) as connected, ThreadPoolExecutor(_AT_ONCE) as pool:
        routes = (_model_route(name, name, [_rule(NAME)]) for name in names)
        for _ in pool.map(functools.partial(post, connected, f"{_NETWORKING}/modelroutes"), routes):
            pass


def client(kubeconfig: Path) -> httpx2.Client:
    """A client of the API server."""
    document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    trust = ssl.create_default_context(cadata=authority)
    headers = {"authorization": f"Bearer {user['token']}"}
    return httpx2.Client(base_url=cluster["server"], verify=trust, headers=headers, timeout=60)


def post(connected: httpx2.Client, path: str, document: dict[str, Any]) -> None:
    """Create an object. Raises RuntimeError."""
    reply = connected.post(path, json=document)
    if reply.status_code != 201:
        raise RuntimeError(f"POST {path}: {reply.status_code} {reply.text[:200]}")


def _patch_status(connected: httpx2.Client, path: str, address: tuple[str, int]) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": address[0], "podIPs": [{"ip": address[0]}], "conditions": [ready]}
    reply = connected.patch(
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


def _model_route(name: str, model: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": name},
        "spec": {"modelName": model, "rules": rules},
    }
