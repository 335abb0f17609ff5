"""Nodes of a cluster: those whose kubelet is the test, and `headgate node`; `conftest` has the fixtures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters import WAIT_S, Cluster, wait_until


@dataclass(frozen=True)
class FakeNode:
    """A node whose kubelet is the test."""

    name: str
    cluster: Cluster

    def deployment(self, name: str, replicas: int) -> dict[str, Any]:
        """A Deployment for this node, with the label app=NAME."""
        labels = {"app": name}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "nodeSelector": {"kubernetes.io/hostname": self.name},
                        "containers": [{"name": "engine", "image": "headgate"}],
                    },
                },
            },
        }

    def pod(self, name: str, app: str, **spec: Any) -> dict[str, Any]:
        """A Pod on this node, with the label app=APP, which no scheduler is asked about."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {
                "nodeName": self.name,
                "containers": [{"name": "engine", "image": "headgate"}],
                **spec,
            },
        }

    def scheduled(self, namespace: str) -> list[str]:
        """Names of the Pods that the scheduler has bound to this node."""
        pods = self.cluster.get("pods", "-n", namespace, f"--field-selector=spec.nodeName={self.name}")
        return [pod["metadata"]["name"] for pod in pods["items"]]

    def run(self, pod: str, namespace: str, address: str, *, ready: bool = True) -> None:
        """Reports a Pod as running at an address."""
        conditions = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        self.report(pod, namespace, [address], conditions)

    def report(
        self,
        pod: str,
        namespace: str,
        addresses: list[str],
        conditions: dict[str, bool],
        phase: str = "Running",
    ) -> None:
        """Reports the status of a Pod."""
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [
                {"type": name, "status": str(is_true), "lastTransitionTime": _now()}
                for name, is_true in conditions.items()
            ],
        }
        if addresses:
            listed = [{"$patch": "replace"}, *({"ip": each} for each in addresses)]
            status |= {"podIP": addresses[0], "podIPs": listed}
        words = ["pod", pod, "-n", namespace, "--subresource=status", "--type=strategic"]
        self.cluster.kubectl("patch", *words, "-p", json.dumps({"status": status}))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@contextmanager
def fake_node(cluster: Cluster) -> Iterator[FakeNode]:
    """A node for Pods that name it themselves."""
    name = f"node-{uuid.uuid4().hex[:10]}"
    labels = {"kubernetes.io/hostname": name}
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Test",
        "lastHeartbeatTime": _now(),
        "lastTransitionTime": _now(),
    }
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    cluster.kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps({"status": status}))
    try:
        yield FakeNode(name, cluster)
    finally:
        cluster.kubectl("delete", "node", name)


def untainted(node: FakeNode) -> FakeNode:
    """The node, once the scheduler may use it; without heartbeats, it is unreachable after 50 s."""
    wait_until(lambda: not node.cluster.get("node", node.name)["spec"].get("taints"))
    return node


@contextmanager
def kept_ready(node: FakeNode) -> Iterator[FakeNode]:
    """The node, which has heartbeats during the block."""
    ended = threading.Event()
    path = f"/api/v1/nodes/{node.name}/status"

    def beat() -> None:
        with node.cluster.client() as client:
            while not ended.wait(10):
                ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _now()}
                client.patch(
                    path,
                    json={"status": {"conditions": [ready]}},
                    headers={"content-type": "application/strategic-merge-patch+json"},
                )

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield node
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class ProcessNode:
    """A running `headgate node`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def process_nodes(cluster: Cluster, directory: Path) -> Iterator[Callable[..., ProcessNode]]:
    """Starts nodes, each with a part of the Pod range, which the API server reaches at 10.244.0.1; their
    files are in a directory."""
    running: list[ProcessNode] = []

    def run(name: str, cidr: str, *options: str) -> ProcessNode:
        command = [sys.executable, "-m", "headgate", "node", f"--kubeconfig={cluster.kubeconfig}"]
        command += [f"--node-name={name}", f"--state={directory / name}", f"--pod-cidr={cidr}"]
        command += ["--node-ip=10.244.0.1", "--drain-timeout=1", *options]
        log = directory / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        running.append(ProcessNode(name, process, log))
        wait_until(lambda: "ready" in log.read_text())
        return running[-1]

    try:
        yield run
    finally:
        for node in running:
            node.process.send_signal(signal.SIGTERM)
            node.process.wait(WAIT_S)
            cluster.kubectl("delete", "node", node.name, "--ignore-not-found")
