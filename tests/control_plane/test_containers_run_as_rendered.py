"""The commands, variables and probes of the chart's containers, run as processes at an address of a Pod."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from containers import container_of, write_settings


@pytest.fixture
def start(kubeconfig_of, run_container) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the container of a component, with the rights that it has in a real cluster."""

    def run(rendered: list[dict[str, Any]], component: str, address: str) -> subprocess.Popen[bytes]:
        return run_container(rendered, component, address, kubeconfig_of(component))

    return run


def status(address: str, container: dict[str, Any], port: str, path: str) -> int | None:
    """Of a page at a named port of the Pod; None if nothing listens there."""
    [number] = [each["containerPort"] for each in container["ports"] if each["name"] == port]
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"http://{address}:{number}{path}", trust_env=False, timeout=10).status_code
    return None


def test_the_gateway_passes_its_probes_until_it_is_told_to_end(
    helm, namespace, start, new_address, eventually, tmp_path
):
    """Then it still serves new connections for a while, although it is not ready."""
    settings = {"shutdown": {"lameduck_s": 3, "drain_s": 5}}
    rendered = helm.template({"watchNamespace": namespace, "gateway": {"settings": settings}}, namespace)
    write_settings(rendered, tmp_path)
    address, container = new_address(), container_of(rendered, "gateway")

    def probe(name: str) -> int | None:
        get = container[name]["httpGet"]
        return status(address, container, get["port"], get["path"])

    process = start(rendered, "gateway", address)
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        eventually(lambda name=name: probe(name) == 200)
    assert status(address, container, "metrics", "/metrics") == 200
    assert status(address, container, "admin", "/debug/config") == 200
    assert status(address, container, "http", "/v1/models") == 200

    process.send_signal(signal.SIGTERM)
    told = time.monotonic()
    eventually(lambda: probe("readinessProbe") == 503)
    assert probe("livenessProbe") == 200
    assert status(address, container, "http", "/v1/models") == 200
    assert process.wait(60) == 0
    assert time.monotonic() - told >= 3


def test_operators_reach_the_admin_port_through_the_api_server(
    cluster, helm, namespace, node, start, new_address, eventually, tmp_path
):
    """With the command of docs/kubernetes.md, which needs the right to `pods/proxy`."""
    rendered = helm.template({"watchNamespace": namespace}, namespace)
    write_settings(rendered, tmp_path)
    address, container = new_address(), container_of(rendered, "gateway")
    cluster.apply(node.deployment("gateway", replicas=1), namespace=namespace)
    [pod] = eventually(lambda: node.scheduled(namespace))
    start(rendered, "gateway", address)
    eventually(lambda: status(address, container, "admin", "/readyz") == 200)
    node.run(pod, namespace, address)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:8081/proxy/debug/config"
    assert "settings" in json.loads(cluster.kubectl("get", "--raw", path))


def test_the_controller_passes_its_probes(cluster, helm, namespace, start, new_address, eventually):
    """One that does not lead is as ready as one that does."""
    rendered = helm.template({"watchNamespace": namespace}, namespace)
    address, container = new_address(), container_of(rendered, "controller")
    process = start(rendered, "controller", address)
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[name]["httpGet"]
        eventually(lambda get=get: status(address, container, get["port"], get["path"]) == 200)
    assert status(address, container, "metrics", "/metrics") == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_the_controllers_elect_one_of_them(cluster, helm, namespace, start, new_address, eventually):
    """It has the name of its Pod in the Lease, and gives the Lease back at its end."""
    rendered = helm.template({"watchNamespace": namespace}, namespace)
    process = start(rendered, "controller", new_address())

    def holder() -> str:
        leases = cluster.get("leases", "-n", namespace)["items"]
        return "".join(each["spec"].get("holderIdentity", "") for each in leases)

    assert eventually(holder).startswith("controller-0_")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert holder() == ""
