"""Helm upgrades, scales and rolls back gateways, controllers and definitions under 200 requests a second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from traffic import route_to, server

ROOT = Path(__file__).parents[3]
IMAGES = {"images": [{"image": "headgate", "command": ["headgate"]}]}
QUICK = {"shutdown": {"lameduck_s": 6, "drain_s": 20}}
DELAY_S = 0.5


@pytest.fixture
def release(cluster, helm, namespace, process_node, tmp_path) -> Iterator[Release]:
    """The chart, whose Pods run as processes of a node."""
    images = tmp_path / "images.yaml"
    images.write_text(yaml.safe_dump(IMAGES))
    node = process_node(f"operators-{namespace}", "10.244.81.0/24", f"--images={images}")
    made = Release(cluster, helm, namespace, node.name)
    yield made
    made.remove()


class Release:
    """`headgate` in the namespace of the test."""

    def __init__(self, cluster: Any, helm: Any, namespace: str, node: str) -> None:
        self._cluster = cluster
        self._helm = helm
        self._place = ("-n", namespace)
        selector = {"kubernetes.io/hostname": node}
        self._everywhere = {
            "watchNamespace": namespace,
            "gateway": {"nodeSelector": selector, "resources": {"requests": {"cpu": "10m"}}},
            "controller": {"nodeSelector": selector, "resources": {"requests": {"cpu": "10m"}}},
        }

    def apply(self, verb: str, gateway: dict[str, Any], controller: dict[str, Any] | None = None) -> None:
        """Installs or upgrades it, and waits until the new Pods have taken over."""
        values = {
            **self._everywhere,
            "gateway": {**self._everywhere["gateway"], **gateway},
            "controller": {**self._everywhere["controller"], **(controller or {})},
        }
        chart = ROOT / "deploy" / "helm" / "headgate"
        words = (verb, "headgate", chart, *self._place, *self._helm.values(values))
        self._helm.run(*words, cluster=self._cluster)
        self.wait()

    def roll_back(self) -> None:
        self._helm.run("rollback", "headgate", "1", *self._place, cluster=self._cluster)
        self.wait()

    def remove(self) -> None:
        self._helm.run("uninstall", "headgate", *self._place, cluster=self._cluster)

    def wait(self) -> None:
        for component in ("gateway", "controller"):
            words = ("rollout", "status", f"deployment/headgate-{component}", "--timeout=240s")
            self._cluster.kubectl(*words, *self._place)

    def pods(self) -> set[str]:
        selected = ("-l", "app.kubernetes.io/instance=headgate")
        return {
            each["metadata"]["name"] for each in self._cluster.get("pods", *self._place, *selected)["items"]
        }


class Proxy:
    """The addresses that the proxy of a node knows: those of an EndpointSlice, with some delay."""

    def __init__(self, cluster: Any, namespace: str) -> None:
        self._client = cluster.client()
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._addresses: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Proxy:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()

    def __call__(self) -> list[str]:
        return self._addresses

    def _follow(self) -> None:
        while not self._is_over.wait(DELAY_S):
            self._look()

    def _look(self) -> None:
        query = {"labelSelector": "kubernetes.io/service-name=headgate-gateway"}
        self._addresses = [
            f"{endpoint['addresses'][0]}:{port['port']}"
            for found in self._client.get(self._path, params=query).json()["items"]
            for port in found["ports"] or ()
            for endpoint in found.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        ]


def test_no_request_fails(cluster, apply, namespace, release, start_engines, load, eventually):
    """All Pods are replaced twice, and a third gateway comes and goes."""
    start_engines("engine", replicas=2)
    apply(server("engine"), route_to("engine"))
    release.apply("install", {"settings": QUICK})
    first = release.pods()
    with Proxy(cluster, namespace) as proxy, load(proxy) as traffic:
        eventually(lambda: traffic.statuses[200] > 200)
        annotation = {"podAnnotations": {"version": "2"}}
        scaled = {"settings": {**QUICK, "workers": {"count": 2}}, "replicas": 3, **annotation}
        cluster.kubectl("apply", "--server-side", "-k", ROOT / "deploy" / "crds")
        release.apply("upgrade", scaled, annotation)
        second = release.pods() - first
        assert len(second) == 5
        release.roll_back()
        eventually(lambda: len(release.pods()) == 4 and not release.pods() & second)
    assert (traffic.failures, set(traffic.statuses)) == ([], {200})
