"""Prometheus scrapes a gateway, the adapter serves its metric, and the HPA of the chart scales by it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from containers import write_settings
from traffic import MODEL, answers, route_to, server

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
METRIC = "headgate_gateway_active_requests"
SLOW_S = 180.0
"""The autoscaler looks every 15 s."""


def adapter_rules() -> str:
    """The configuration of the adapter that the page has."""
    blocks: list[str] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return next(block for block in blocks if "seriesQuery" in block)


@pytest.fixture
def hold() -> Iterator[Callable[[str, int], None]]:
    """Sends streamed requests, which last until the test ends."""
    threads: list[threading.Thread] = []

    def ask(url: str) -> None:
        body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        response = httpx2.post(f"{url}/v1/chat/completions", json=body, trust_env=False, timeout=600)
        assert response.status_code == 200, response.text

    def run(url: str, number: int) -> None:
        for _ in range(number):
            threads.append(threading.Thread(target=ask, args=(url,)))
            threads[-1].start()

    yield run
    for thread in threads:
        thread.join()


@pytest.fixture
def chart(cluster, helm, namespace, lasting_node) -> list[dict[str, Any]]:
    """The chart with its autoscaler, applied to the namespace of the test."""
    values = {
        "watchNamespace": namespace,
        "monitoring": {"podMonitor": {"enabled": True}},
        "admission": {"policies": {"enabled": False}},
        "gateway": {
            "nodeSelector": {"kubernetes.io/hostname": lasting_node.name},
            "autoscaling": {
                "enabled": True,
                "minReplicas": 1,
                "maxReplicas": 5,
                "cpuPercent": 0,
                "activeRequests": 2,
            },
        },
    }
    rendered = helm.template(values, namespace)
    cluster.apply(*(each for each in rendered if each["kind"] != "PodMonitor"), namespace=namespace)
    return rendered


@pytest.mark.parametrize("helm", ["3"], indirect=True)
def test_a_gateway_with_more_requests_than_wanted_is_scaled_up(
    cluster,
    namespace,
    node,
    chart,
    new_address,
    run_container,
    listen,
    hold,
    run_prometheus,
    run_adapter,
    tmp_path,
    eventually,
):
    """Six requests in progress, two wanted for each Pod: three Pods."""
    with ExitStack() as ending:
        engine = listen(address := new_address())
        ending.callback(engine.finish.set)
        cluster.apply(node.pod("engine", "engine"), server("engine"), route_to("engine"), namespace=namespace)
        node.run("engine", namespace, address)

        [pod] = eventually(lambda: [name for name in node.scheduled(namespace) if "headgate-gateway" in name])
        write_settings(chart, tmp_path)
        address = new_address()
        kubeconfig = cluster.kubeconfig_of("headgate-gateway", namespace, tmp_path)
        run_container(chart, "gateway", address, kubeconfig, pod)
        eventually(lambda: answers(f"http://{address}:8081/readyz"))
        node.run(pod, namespace, address)

        prometheus = run_prometheus(chart, "gateway")
        hold(f"http://{address}:8080", 6)
        eventually(lambda: engine.served == 6)
        eventually(lambda: [each["value"][1] for each in prometheus.query(f"sum({METRIC})")] == ["6"])
        run_adapter(prometheus, adapter_rules())

        path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/*/{METRIC}"

        def values() -> dict[str, str]:
            answer = cluster.request(
                path, json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
            )
            items = answer.json().get("items", []) if answer.status_code == 200 else []
            return {each["describedObject"]["name"]: each["value"] for each in items}

        eventually(lambda: values() == {pod: "6"})

        def wanted() -> int:
            return int(cluster.get("deployment", "headgate-gateway", "-n", namespace)["spec"]["replicas"])

        def conditions() -> set[tuple[str, str]]:
            scaler = cluster.get("hpa", "headgate-gateway", "-n", namespace)
            return {(each["type"], each["status"]) for each in scaler["status"].get("conditions", ())}

        eventually(lambda: wanted() == 3, SLOW_S)
        # They are written after the replicas.
        eventually(lambda: conditions() >= {("ScalingActive", "True"), ("ScalingLimited", "False")})
        assert wanted() == 3
