"""APIs that other programs serve, through the API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PURPOSES = ("lister", "authentication", "authorization")
"""For which a server of metrics has a kubeconfig each."""


@contextmanager
def aggregated_api(
    cluster: Any, namespace: str, name: str, address: str, group: str, version: str
) -> Iterator[None]:
    """Registers an API that is served at port 6443 of an address, by a Service with a name."""
    cluster.apply(*_service(name, address), namespace=namespace)
    cluster.apply(_registration(name, namespace, group, version))
    api_service = f"{version}.{group}"
    try:
        cluster.kubectl("wait", "apiservice", api_service, "--for=condition=Available", "--timeout=120s")
        yield
    finally:
        cluster.kubectl("delete", "apiservice", api_service, "--ignore-not-found")


def _service(name: str, address: str) -> list[dict[str, Any]]:
    """A Service without a selector, and its endpoint."""
    port = {"name": "https", "port": 6443, "protocol": "TCP"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    }
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }
    return [service, slices]


def _registration(name: str, namespace: str, group: str, version: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": name, "namespace": namespace, "port": 443},
        },
    }
