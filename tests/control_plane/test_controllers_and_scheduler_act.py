"""Deployments become Pods on a node, and Services find them at their addresses."""

from collections.abc import Callable
from typing import Any


def test_the_pods_of_a_deployment_are_scheduled(cluster, namespace, node, eventually):
    cluster.apply(node.deployment("sim", replicas=3), namespace=namespace)
    eventually(lambda: len(node.scheduled(namespace)) == 3)
    [owner] = cluster.get("replicasets", "-n", namespace)["items"]
    assert owner["spec"]["replicas"] == 3
    for pod in cluster.get("pods", "-n", namespace)["items"]:
        [reference] = pod["metadata"]["ownerReferences"]
        assert reference["name"] == owner["metadata"]["name"]
        assert pod["spec"]["serviceAccountName"] == "default"


def test_a_deployment_becomes_available_with_its_pods(cluster, namespace, node, eventually, new_address):
    cluster.apply(node.deployment("sim", replicas=2), namespace=namespace)
    for pod in eventually(lambda: _all_of(node.scheduled(namespace), 2)):
        node.run(pod, namespace, new_address())
    cluster.kubectl("rollout", "status", "deployment/sim", "-n", namespace, "--timeout=60s")


def test_a_service_gets_the_addresses_of_its_pods(cluster, namespace, node, eventually, new_address):
    """A Pod that is not ready stays in the slice, marked so."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "sim"},
        "spec": {"selector": {"app": "sim"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    cluster.apply(node.deployment("sim", replicas=2), service, namespace=namespace)
    first, second = eventually(lambda: _all_of(node.scheduled(namespace), 2))
    addresses = {new_address(): True, new_address(): True}
    endpoints = _endpoints(cluster, namespace)
    for pod, address in zip((first, second), addresses, strict=True):
        node.run(pod, namespace, address)
    eventually(lambda: endpoints() == addresses)
    address = next(iter(addresses))
    node.run(first, namespace, address, ready=False)
    eventually(lambda: endpoints() == addresses | {address: False})


def _all_of(names: list[str], number: int) -> list[str]:
    return names if len(names) == number else []


def _endpoints(cluster: Any, namespace: str) -> Callable[[], dict[str, bool]]:
    """Whether each address of the Service is ready."""

    def read() -> dict[str, bool]:
        slices = cluster.get("endpointslices", "-n", namespace, "-l", "kubernetes.io/service-name=sim")[
            "items"
        ]
        return {
            address: endpoint["conditions"]["ready"]
            for each in slices
            for endpoint in each["endpoints"] or ()
            for address in endpoint["addresses"]
        }

    return read
