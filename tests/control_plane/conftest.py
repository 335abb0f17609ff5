"""Tests against a real Kubernetes control plane, which `make test-cluster` runs in a network namespace.

The control plane starts once for the session; each test has a Kubernetes namespace of its own. There is no
kubelet: a test says itself what has become of the Pods that are scheduled to its node, or starts
`headgate node`.
"""

from __future__ import annotations

import base64
import ipaddress
import itertools
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from charts import helm  # noqa: F401 - a fixture
from clusters import TOOL, WAIT_S, Cluster, control_plane, wait_until
from containers import lasting_node, run_container  # noqa: F401 - fixtures
from keda import keda  # noqa: F401 - a fixture
from prometheus import monitoring, run_adapter, run_prometheus  # noqa: F401 - fixtures
from traffic import listen, start, start_engine, start_gateway  # noqa: F401 - fixtures
from webhook_processes import webhook_of  # noqa: F401 - a fixture

from headgate import api

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kustomize" / "base"
# The cases of admission rules are those of tests/api/admission.
sys.path.insert(0, str(ROOT / "tests" / "api" / "admission" / "driver"))
# The Models and their objects are those of tests/controllers/model.
sys.path.insert(0, str(ROOT / "tests" / "controllers" / "model" / "driver"))
# What LeaderWorkerSets and Models do is the same here and on the embedded API server.
sys.path.insert(0, str(ROOT / "tests" / "node" / "behaviors"))
sys.path.insert(0, str(ROOT / "tests" / "controllers" / "model" / "behaviors"))
sys.path.insert(0, str(ROOT / "tests" / "downloads" / "driver"))
sys.path.insert(0, str(ROOT / "tests" / "whole" / "models" / "driver"))

POD_RANGE_VARIABLE = "HEADGATE_TEST_POD_RANGE"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if POD_RANGE_VARIABLE not in os.environ:
                item.add_marker(pytest.mark.skip(reason="runs in a network namespace: make test-cluster"))


@pytest.fixture(scope="session")
def connected() -> Iterator[Callable[[Path], httpx2.Client]]:
    """Makes HTTP clients of API servers by their kubeconfig, for many writes, which take kubectl long."""
    clients: list[httpx2.Client] = []

    def connect(kubeconfig: Path) -> httpx2.Client:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        client = httpx2.Client(
            base_url=cluster["server"],
            headers={"authorization": f"Bearer {config['users'][0]['user']['token']}"},
            verify=ssl.create_default_context(cadata=authority),
            trust_env=False,
            timeout=WAIT_S,
        )
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    return wait_until


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with the programs of the control plane."""
    found = subprocess.run([sys.executable, TOOL, "path"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Cluster]:
    """A control plane with Headgate's definitions installed, and those of other projects that it reads."""
    with control_plane(tmp_path_factory.mktemp("cluster"), programs) as started:
        started.apply(*api.borrowed_definitions())
        started.define("-k", ROOT / "deploy" / "crds")
        yield started


@pytest.fixture(scope="session")
def lws(cluster: Cluster) -> Iterator[None]:
    """LWS's own controller of LeaderWorkerSets, with its definition and webhooks, beside `cluster`."""
    command = [sys.executable, TOOL, "lws", cluster.state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if not process.stdout.readline():
            reason = process.stderr.read()
            if "There is no LWS" in reason:
                pytest.skip(reason)
            pytest.fail(reason)
        yield
        process.terminate()
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")


@pytest.fixture(scope="module")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Cluster]:
    """Another control plane, which does not have Headgate's definitions."""
    with control_plane(tmp_path_factory.mktemp("bare-cluster"), programs) as started:
        yield started


@pytest.fixture
def fresh_cluster(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Cluster]:
    """A control plane for one test, without Headgate's definitions."""
    with control_plane(tmp_path_factory.mktemp("fresh-cluster"), programs) as started:
        yield started


@pytest.fixture
def namespace(new_namespace: Callable[[], str]) -> str:
    """A namespace for one test, with the account that its Pods run as."""
    return new_namespace()


@pytest.fixture
def new_namespace(cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Makes namespaces for one test."""
    made: list[str] = []

    def make() -> str:
        name = f"test-{uuid.uuid4().hex[:10]}"
        made.append(name)
        cluster.kubectl("create", "namespace", name)
        account = "serviceaccount/default"
        cluster.kubectl("wait", "--for=create", account, "-n", name, f"--timeout={WAIT_S:.0f}s")
        return name

    yield make
    for name in made:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def grant(cluster: Cluster, namespace: str) -> Callable[..., None]:
    """Grants "gateway" or "controller" of the test's namespace, in another one, the rights that it has in a
    real cluster, except for some resources."""

    def give(component: str, where: str, *, without: tuple[str, ...] = ()) -> None:
        objects = yaml.safe_load_all((BASE / f"{component}.yaml").read_text())
        roles = [each for each in objects if each["kind"] in ("ClusterRole", "Role")]
        for role in roles:
            role |= {"kind": "Role", "metadata": {"name": role["metadata"]["name"]}}
            role["rules"] = [rule for rule in role["rules"] if not {*rule["resources"]} & {*without}]
        cluster.apply(*roles, namespace=where)
        to = {"kind": "ServiceAccount", "name": f"headgate-{component}", "namespace": namespace}
        for role in roles:
            name = role["metadata"]["name"]
            of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": name},
                "roleRef": of,
                "subjects": [to],
            }
            cluster.apply(binding, namespace=where)

    return give


@pytest.fixture
def kubeconfig_of(cluster: Cluster, namespace: str, grant: Any, tmp_path: Path) -> Callable[..., Path]:
    """Makes the kubeconfig of "gateway" or "controller", with the rights that it has in a real cluster, but
    only in the namespace of the test, and in others if they are given.
    """

    def make(component: str, *others: str) -> Path:
        cluster.kubectl("create", "serviceaccount", f"headgate-{component}", "-n", namespace)
        for granting in (namespace, *others):
            grant(component, granting)
        return cluster.kubeconfig_of(f"headgate-{component}", namespace, tmp_path)

    return make


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


@pytest.fixture
def node(host: FakeNode) -> FakeNode:
    """A node that the scheduler may use; without heartbeats, it is unreachable after 50 s."""
    wait_until(lambda: not host.cluster.get("node", host.name)["spec"].get("taints"))
    return host


@pytest.fixture
def host(cluster: Cluster) -> Iterator[FakeNode]:
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
    yield FakeNode(name, cluster)
    cluster.kubectl("delete", "node", name)


@pytest.fixture(scope="session")
def new_address() -> Callable[[], str]:
    """Makes addresses for Pods: all are local in this network namespace."""
    hosts = ipaddress.ip_network(os.environ[POD_RANGE_VARIABLE]).hosts()
    addresses = itertools.islice(hosts, 10, None)
    return lambda: str(next(addresses))


@dataclass(frozen=True)
class ProcessNode:
    """A running `headgate node`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


@pytest.fixture
def process_node(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., ProcessNode]]:
    """Starts nodes, each with a part of the Pod range, which the API server reaches at 10.244.0.1."""
    running: list[ProcessNode] = []

    def run(name: str, cidr: str, *options: str) -> ProcessNode:
        command = [sys.executable, "-m", "headgate", "node", f"--kubeconfig={cluster.kubeconfig}"]
        command += [f"--node-name={name}", f"--state={tmp_path / name}", f"--pod-cidr={cidr}"]
        command += ["--node-ip=10.244.0.1", "--drain-timeout=1", *options]
        log = tmp_path / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        running.append(ProcessNode(name, process, log))
        wait_until(lambda: "ready" in log.read_text())
        return running[-1]

    yield run
    for node in running:
        node.process.send_signal(signal.SIGTERM)
        node.process.wait(WAIT_S)
        cluster.kubectl("delete", "node", node.name, "--ignore-not-found")
