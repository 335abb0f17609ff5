"""The objects of a picker: the engines as Pods, and an InferencePool that selects them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import objects

POOL = objects.NAME
_POOLS = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools"


def declare(kubeconfig: Path, engines: Sequence[tuple[str, int]]) -> None:
    """Create them through the Kubernetes API."""
    with objects.client(kubeconfig) as connected:
        objects.declare_pods(connected, engines, POOL)
        pool = {
            "apiVersion": "inference.networking.k8s.io/v1",
            "kind": "InferencePool",
            "metadata": {"name": POOL},
            "spec": {
                "selector": {"matchLabels": {"app": POOL}},
                "targetPorts": [{"number": engines[0][1]}],
                "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
            },
        }
        objects.post(connected, _POOLS, pool)
