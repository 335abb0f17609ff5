"""Where a Pod is reached: on the network of its node, at several ports, and by either family of addresses."""

from __future__ import annotations

import pytest
from traffic import MODEL, Gateway, route_to, server

READY = {"ContainersReady": True, "Ready": True}


@pytest.fixture
def gateway(kubeconfig_of, namespace, start_gateway, eventually) -> Gateway:
    started = start_gateway(kubeconfig_of("gateway"), "--namespace", namespace)
    eventually(started.is_ready)
    return started


def _engine(*ports: int) -> list[dict]:
    return [{"name": "engine", "image": "headgate", "ports": [{"containerPort": port} for port in ports]}]


def test_pods_on_the_network_of_their_node_share_an_address(
    cluster, namespace, host, new_address, listen, gateway, eventually
):
    """Each is reached at its own port, which is the first that it declares."""
    address = new_address()
    engines = [listen(address, port) for port in (8101, 8102)]
    for port in (8101, 8102):
        pod = host.pod(f"engine-{port}", "chat", hostNetwork=True, containers=_engine(port))
        cluster.apply(pod, namespace=namespace)
        host.report(f"engine-{port}", namespace, [address], READY)
    pool = server("chat")
    del pool["spec"]["workloadPort"]
    cluster.apply(pool, route_to("chat"), namespace=namespace)
    wanted = {f"{address}:8101", f"{address}:8102"}
    eventually(lambda: gateway.addresses(f"{namespace}/chat") == wanted)
    eventually(lambda: gateway.ask().status_code == 200 and all(engine.served for engine in engines))
    host.report("engine-8101", namespace, [address], {"Ready": False})
    eventually(lambda: gateway.addresses(f"{namespace}/chat") == {f"{address}:8102"})
    before = engines[0].served
    assert [gateway.ask().status_code for _ in range(4)] == [200] * 4
    assert engines[0].served == before


def test_each_target_port_of_each_pod_is_an_endpoint(
    cluster, namespace, host, new_address, listen, gateway, eventually
):
    addresses = [new_address(), new_address()]
    engines = [listen(address, port) for address in addresses for port in (8001, 8002)]
    for number, address in enumerate(addresses):
        cluster.apply(host.pod(f"ranks-{number}", "ranks"), namespace=namespace)
        host.report(f"ranks-{number}", namespace, [address], READY)
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "ranks", "annotations": {"headgate.dev/models": MODEL}},
        "spec": {
            "selector": {"matchLabels": {"app": "ranks"}},
            "targetPorts": [{"number": 8001}, {"number": 8002}],
            "endpointPickerRef": {"name": "none", "port": {"number": 9002}},
        },
    }
    cluster.apply(pool, namespace=namespace)
    wanted = {f"{address}:{port}" for address in addresses for port in (8001, 8002)}
    eventually(lambda: gateway.addresses(f"InferencePool/{namespace}/ranks") == wanted)
    eventually(lambda: gateway.ask().status_code == 200 and all(engine.served for engine in engines))
    host.report("ranks-0", namespace, [addresses[0]], {"Ready": False})
    remaining = {f"{addresses[1]}:{port}" for port in (8001, 8002)}
    eventually(lambda: gateway.addresses(f"InferencePool/{namespace}/ranks") == remaining)


def test_the_first_of_two_families_is_used(
    cluster, namespace, host, new_address, listen, gateway, eventually
):
    """It is that of the cluster."""
    four, six = new_address(), "::1"
    engines = {"four-first": listen(four), "six-first": listen(six, 8600)}
    cluster.apply(host.pod("four-first", "chat"), namespace=namespace)
    host.report("four-first", namespace, [four, six], READY)
    cluster.apply(server("chat"), route_to("chat"), namespace=namespace)
    eventually(lambda: gateway.addresses(f"{namespace}/chat") == {f"{four}:8000"})
    assert gateway.ask().status_code == 200
    assert engines["four-first"].served == 1

    cluster.apply(host.pod("six-first", "chat", containers=_engine(8600)), namespace=namespace)
    cluster.kubectl("delete", "pod", "four-first", "-n", namespace, "--wait=false")
    host.report("six-first", namespace, [six, four], READY)
    cluster.apply(server("chat", workloadPort={"port": 8600}), namespace=namespace)
    eventually(lambda: gateway.addresses(f"{namespace}/chat") == {"[::1]:8600"})
    assert gateway.ask().status_code == 200
    assert engines["six-first"].served == 1
