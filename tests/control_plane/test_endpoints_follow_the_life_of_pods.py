"""Only Pods that may serve get requests: from the moment they are ready to the moment their end begins."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from traffic import MODEL, Gateway, route_to, server

READY = {"ContainersReady": True, "Ready": True}
NOT_READY = {"ContainersReady": False, "Ready": False}


@pytest.fixture
def gateway(cluster, kubeconfig_of, namespace, start_gateway, eventually) -> Gateway:
    """One with a route to the Pods of app=chat."""
    started = start_gateway(kubeconfig_of("gateway"), "--namespace", namespace)
    cluster.apply(server("chat"), route_to("chat"), namespace=namespace)
    eventually(started.is_ready)
    return started


@pytest.fixture
def run(cluster, namespace, host, new_address, listen):
    """Makes a ready Pod of app=chat with an engine at its address."""

    def make(name: str, **spec):
        address = new_address()
        engine = listen(address)
        cluster.apply(host.pod(name, "chat", **spec), namespace=namespace)
        host.report(name, namespace, [address], READY)
        return address, engine

    return make


def _pool(gateway: Gateway, namespace: str) -> set[str]:
    return gateway.addresses(f"{namespace}/chat")


def _is_ready(pod: dict[str, Any]) -> bool:
    return any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"]["conditions"])


def test_a_pod_that_terminates_gets_no_new_requests_and_finishes_those_it_has(
    cluster, namespace, gateway, run, eventually
):
    """It is still ready, and its node has not stopped it yet."""
    address, engine = run("going", terminationGracePeriodSeconds=300)
    eventually(lambda: _pool(gateway, namespace) == {f"{address}:8000"})
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    url = f"{gateway.url}/v1/chat/completions"
    with httpx2.stream("POST", url, json=body, trust_env=False, timeout=60) as response:
        lines = response.iter_lines()
        assert "Hi" in next(lines)
        cluster.kubectl("delete", "pod", "going", "-n", namespace, "--wait=false")
        eventually(lambda: gateway.ask().status_code == 503)  # the gateway has heard of it
        served = engine.served
        other, second = run("staying")
        eventually(lambda: gateway.ask().status_code == 200)
        assert [gateway.ask().status_code for _ in range(5)] == [200] * 5
        assert (engine.served, _pool(gateway, namespace)) == (served, {f"{other}:8000"})
        pod = cluster.get("pod", "going", "-n", namespace)
        assert pod["metadata"]["deletionTimestamp"]
        assert _is_ready(pod)
        engine.finish.set()
        assert "data: [DONE]" in list(lines)
    assert second.served == 6


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_gets_no_requests(cluster, namespace, host, gateway, run, eventually, phase):
    """Evicted by its node, it may have ended without a word that it is not ready."""
    address, _ = run("ended")
    eventually(lambda: gateway.ask().status_code == 200)
    host.report("ended", namespace, [address], READY, phase=phase)
    eventually(lambda: gateway.ask().status_code == 503)
    assert _is_ready(cluster.get("pod", "ended", "-n", namespace))


def test_a_pod_with_a_readiness_gate_waits_for_it(
    cluster, namespace, host, new_address, listen, gateway, run, eventually
):
    """Its containers are ready before it is; when the gate closes again, so does the way to it."""
    gate = "example.com/warm"
    address = new_address()
    engine = listen(address)
    pod = host.pod("gated", "chat", readinessGates=[{"conditionType": gate}])
    cluster.apply(pod, namespace=namespace)
    host.report("gated", namespace, [address], {"ContainersReady": True, gate: False, "Ready": False})
    other, _ = run("beside")
    eventually(lambda: _pool(gateway, namespace) == {f"{other}:8000"})
    assert gateway.ask().status_code == 200
    assert engine.served == 0
    host.report("gated", namespace, [address], {"ContainersReady": True, gate: True, "Ready": True})
    eventually(lambda: _pool(gateway, namespace) == {f"{address}:8000", f"{other}:8000"})
    host.report("gated", namespace, [address], {"ContainersReady": True, gate: False, "Ready": False})
    eventually(lambda: _pool(gateway, namespace) == {f"{other}:8000"})


def test_a_pod_without_an_address_is_no_endpoint(cluster, namespace, host, gateway, run, eventually):
    """Even if its node reports it ready."""
    cluster.apply(host.pod("bare", "chat"), namespace=namespace)
    host.report("bare", namespace, [], READY)
    address, _ = run("usual")
    eventually(lambda: _pool(gateway, namespace) == {f"{address}:8000"})


def test_a_pod_that_moves_is_followed_and_its_address_may_be_used_again(
    namespace, host, new_address, listen, gateway, run, eventually
):
    """As when its sandbox is made anew. The next owner of the address is another endpoint."""
    first, engine = run("moves")
    eventually(lambda: gateway.ask().status_code == 200)
    second = new_address()
    moved = listen(second)
    host.report("moves", namespace, [second], READY)
    eventually(lambda: _pool(gateway, namespace) == {f"{second}:8000"})
    before = engine.served
    assert gateway.ask().status_code == 200
    assert (engine.served, moved.served) == (before, 1)
    host.report("moves", namespace, [second], NOT_READY)
    eventually(lambda: gateway.ask().status_code == 503)
    host.cluster.apply(host.pod("next", "chat"), namespace=namespace)
    host.report("next", namespace, [first], READY)
    eventually(lambda: gateway.ask().status_code == 200)
    [endpoint] = gateway.config()["pools"][f"{namespace}/chat"]
    assert (endpoint["name"], endpoint["address"]) == (f"{namespace}/next", f"{first}:8000")
    assert engine.served == before + 1


def test_pods_of_a_node_that_fails_get_no_requests(cluster, namespace, host, gateway, run, eventually):
    """It is noticed after 50 s without heartbeats. One Pod is evicted then, and stays in the API with nobody
    to end it; the other waits for the node, and serves again once it is back."""
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    one, _ = run("evicted", tolerations=[unreachable | {"tolerationSeconds": 1}])
    two, _ = run("waits", tolerations=[unreachable])
    eventually(lambda: _pool(gateway, namespace) == {f"{one}:8000", f"{two}:8000"})
    eventually(lambda: gateway.ask().status_code == 503, 180)
    # The control plane evicts nothing as long as no node at all is ready.
    cluster.kubectl("taint", "nodes", host.name, f"{unreachable['key']}=:NoExecute", "--overwrite")
    eventually(lambda: "deletionTimestamp" in cluster.get("pod", "evicted", "-n", namespace)["metadata"], 180)
    for name, address in {"evicted": one, "waits": two}.items():
        host.report(name, namespace, [address], READY)
    eventually(lambda: _pool(gateway, namespace) == {f"{two}:8000"})
    assert gateway.ask().status_code == 200
