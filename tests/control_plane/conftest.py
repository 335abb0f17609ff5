"""Tests against a real Kubernetes control plane, which `make test-cluster` runs in a network namespace.

The control plane starts once for the session; each test has a Kubernetes namespace of its own. There is no
kubelet: a test says itself what has become of the Pods that are scheduled to its node, or starts
`headgate node`.
"""

from __future__ import annotations

import base64
import ipaddress
import itertools
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from charts import helm  # noqa: F401 - a fixture
from clusters import TOOL, WAIT_S, Cluster, control_plane, namespaces, wait_until
from containers import run_container  # noqa: F401 - a fixture
from keda import keda  # noqa: F401 - a fixture
from nodes import FakeNode, ProcessNode, fake_node, kept_ready, process_nodes, untainted
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
    with namespaces(cluster) as make:
        yield make


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


@pytest.fixture
def node(host: FakeNode) -> FakeNode:
    """A node that the scheduler may use; without heartbeats, it is unreachable after 50 s."""
    return untainted(host)


@pytest.fixture
def host(cluster: Cluster) -> Iterator[FakeNode]:
    """A node for Pods that name it themselves."""
    with fake_node(cluster) as made:
        yield made


@pytest.fixture
def lasting_node(node: FakeNode) -> Iterator[FakeNode]:
    """A node that stays ready during the test: it has heartbeats."""
    with kept_ready(node) as kept:
        yield kept


@pytest.fixture(scope="session")
def new_address() -> Callable[[], str]:
    """Makes addresses for Pods: all are local in this network namespace."""
    hosts = ipaddress.ip_network(os.environ[POD_RANGE_VARIABLE]).hosts()
    addresses = itertools.islice(hosts, 10, None)
    return lambda: str(next(addresses))


@pytest.fixture
def process_node(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., ProcessNode]]:
    """Starts nodes, each with a part of the Pod range, which the API server reaches at 10.244.0.1."""
    with process_nodes(cluster, tmp_path) as run:
        yield run
