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
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from containers import lasting_node, run_container  # noqa: F401 - fixtures
from prometheus import monitoring, run_adapter, run_prometheus  # noqa: F401 - fixtures
from traffic import listen, start, start_engine, start_gateway  # noqa: F401 - fixtures

from headgate import api

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "control_plane"
CHART = ROOT / "deploy" / "helm" / "headgate"
BASE = ROOT / "deploy" / "kustomize" / "base"
# The cases of admission rules are those of tests/api/admission.
sys.path.insert(0, str(ROOT / "tests" / "api" / "admission" / "driver"))
# The Models and their objects are those of tests/controllers/model.
sys.path.insert(0, str(ROOT / "tests" / "controllers" / "model" / "driver"))
# What LeaderWorkerSets do is the same here and on the embedded API server.
sys.path.insert(0, str(ROOT / "tests" / "node" / "behaviors"))

POD_RANGE_VARIABLE = "HEADGATE_TEST_POD_RANGE"
WAIT_S = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if POD_RANGE_VARIABLE not in os.environ:
                item.add_marker(pytest.mark.skip(reason="runs in a network namespace: make test-cluster"))


def wait_until(holds: Callable[[], Any], limit_s: float = WAIT_S) -> Any:
    """Polls until something holds, and returns it."""
    began = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - began < limit_s, f"{holds} did not hold within {limit_s} s"
        time.sleep(0.05)
    return found


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


@dataclass(frozen=True)
class Cluster:
    """A control plane, as its administrator sees it."""

    kubeconfig: Path
    programs: Path
    """The directory of kubectl and the others."""

    @property
    def state(self) -> Path:
        return self.kubeconfig.parent

    @property
    def server(self) -> str:
        """Its URL."""
        url: str = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        return url

    def kubectl(self, *words: str | Path, text: str | None = None, fails: bool = False) -> str:
        """What kubectl prints; asserts that it succeeds, or with `fails` that it does not."""
        flags = ["--kubeconfig", self.kubeconfig, "--cache-dir", self.state / "kubectl-cache"]
        done = subprocess.run(
            [self.programs / "kubectl", *flags, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def apply(self, *manifests: dict[str, Any], namespace: str = "default") -> None:
        text = "\n".join(json.dumps(manifest) + "\n---" for manifest in manifests)
        self.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", text=text)

    def define(self, *words: str | Path) -> None:
        """Applies definitions, and waits until they are served."""
        self.kubectl("apply", "--server-side", *words)
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={WAIT_S:.0f}s")

    def define_loosely(self, *kinds: tuple[str, str, str]) -> None:
        """Kinds by group, version and name, which take any content and keep it."""
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        for group, version, kind in kinds:
            plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
            names = {"kind": kind, "plural": plural, "singular": kind.lower()}
            schema = {"openAPIV3Schema": anything}
            served = {"name": version, "served": True, "storage": True, "schema": schema}
            self.apply(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {
                        "name": f"{plural}.{group}",
                        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
                    },
                    "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
                }
            )
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={WAIT_S:.0f}s")

    def get(self, *words: str) -> Any:
        """An object, or a list of them."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def client(self) -> httpx2.Client:
        """Sends requests of the administrator."""
        return self._client(json.loads(self.kubeconfig.read_text())["users"][0]["user"]["token"])

    def request(self, path: str, token: str | None = None) -> httpx2.Response:
        """A GET with a token, or without one."""
        with self._client(token) as client:
            return client.get(path)

    def _client(self, token: str | None) -> httpx2.Client:
        cluster = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return httpx2.Client(
            base_url=cluster["server"],
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cadata=authority),
            trust_env=False,
            timeout=WAIT_S,
        )

    def kubeconfig_of(self, account: str, namespace: str, directory: Path) -> Path:
        """Writes a kubeconfig with a token of a service account."""
        config = json.loads(self.kubeconfig.read_text())
        token = self.kubectl("create", "token", account, "-n", namespace).strip()
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        config["contexts"][0]["context"]["namespace"] = namespace
        file = directory / f"{account}.kubeconfig"
        file.write_text(json.dumps(config))
        return file


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with the programs of the control plane."""
    found = subprocess.run([sys.executable, TOOL, "path"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())


@contextmanager
def control_plane(state: Path, programs: Path) -> Iterator[Cluster]:
    """A control plane without any definitions."""
    command = [sys.executable, TOOL, "up", "--audit", state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = process.stdout.readline()
        assert printed, process.stderr.read()
        yield Cluster(Path(printed.strip()), programs)
        process.terminate()
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")


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


@dataclass(frozen=True)
class Helm:
    """One version of Helm. `base` has its files: values, and caches."""

    program: Path
    base: Path

    def run(self, *words: str | Path, cluster: Cluster | None = None, fails: bool = False) -> str:
        """What it prints; asserts that it succeeds, or with `fails` that it does not."""
        homes = {f"HELM_{kind}_HOME": str(self.base / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        kubeconfig = str(cluster.kubeconfig) if cluster else "/dev/null"
        done = subprocess.run(
            [self.program, *words],
            env={"PATH": os.environ["PATH"], "HOME": str(self.base), "KUBECONFIG": kubeconfig, **homes},
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr if fails else done.stdout

    def values(self, values: dict[str, Any]) -> list[str | Path]:
        """The flag that passes these values."""
        file = self.base / f"{uuid.uuid4().hex}.yaml"
        file.write_text(json.dumps(values))
        return ["--values", file]

    def template(self, values: dict[str, Any], namespace: str = "headgate-system") -> list[dict[str, Any]]:
        """The objects of the chart."""
        text = self.run("template", "headgate", CHART, "--namespace", namespace, *self.values(values))
        return [each for each in yaml.safe_load_all(text) if each]


@pytest.fixture(params=["3", "4"])
def helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """Each major version of Helm that is found."""
    found = subprocess.run([sys.executable, TOOL, "path-helm"], capture_output=True, text=True, check=True)
    for line in found.stdout.split():
        told = subprocess.run([line, "version", "--short"], capture_output=True, text=True, check=True)
        if told.stdout.startswith(f"v{request.param}."):
            return Helm(Path(line), tmp_path)
    pytest.skip(f"there is no Helm {request.param}: `make helm` builds it")


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


GROUPS = [
    "networking.volcano.sh",
    "registry.volcano.sh",
    "llmd.ai",
    "inference.networking.k8s.io",
    "inference.networking.x-k8s.io",
]


@dataclass(frozen=True)
class Webhook:
    """Processes of `headgate webhook`, and the configuration by which the API server asks one of them."""

    name: str
    """Of the configuration, the Secret and the Lease."""
    namespace: str
    urls: list[str]
    failure_policy: str
    cluster: Cluster

    def configure(self, url: str, authorities: str | None = None) -> None:
        """Let the API server ask this process, trusting these authorities, in base64; None: as before."""
        if authorities is None:
            words = ["validatingwebhookconfiguration", self.name, "--ignore-not-found", "-o", "json"]
            found = json.loads(self.cluster.kubectl("get", *words) or "{}")
            authorities = (found.get("webhooks") or [{"clientConfig": {}}])[0]["clientConfig"].get("caBundle")
        rule = {
            "apiGroups": GROUPS,
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["*"],
        }
        client = {"url": url} | ({"caBundle": authorities} if authorities else {})
        webhook = {
            "name": "rules.headgate.dev",
            "clientConfig": client,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": self.failure_policy,
            "timeoutSeconds": 5,
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"asked": self.name}} if self.name != "rules" else {},
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [webhook],
        }
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps(configuration))

    def secret(self) -> Any:
        """The Secret, with no data if there is none."""
        found = self.cluster.kubectl(
            "get", "secret", self.name, "-n", self.namespace, "--ignore-not-found", "-o", "json"
        )
        secret = json.loads(found or "{}")
        return {"data": {}} | secret

    def try_to_create(self, obj: dict[str, Any], namespace: str) -> str:
        """What kubectl says about a dry run, whether it succeeds or not."""
        flags = ["--kubeconfig", self.cluster.kubeconfig, "--cache-dir", self.cluster.state / "kubectl-cache"]
        command = [self.cluster.programs / "kubectl", *flags, "create", "--dry-run=server", "-f", "-"]
        done = subprocess.run(
            [*command, "-n", namespace], input=json.dumps(obj), capture_output=True, text=True, timeout=WAIT_S
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def webhook_of(cluster: Cluster) -> Iterator[Callable[..., Webhook]]:
    """Starts `headgate webhook`, and lets the API server ask it."""
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    made: list[Webhook] = []

    def run(
        name: str, *, failure_policy: str, replicas: int = 1, options: dict[str, str] | None = None
    ) -> Webhook:
        for each in made:
            if each.name == name:
                return each
        urls = []
        for _ in range(replicas):
            command = [sys.executable, "-m", "headgate", "webhook", "--kubeconfig", cluster.kubeconfig]
            command += ["--host", "127.0.0.1", "--port", "0", "--name", "127.0.0.1", "--configuration", name]
            command += ["--secret", f"default/{name}", "--lease", f"default/{name}"]
            command += [word for pair in ({"--lease-s": "3"} | (options or {})).items() for word in pair]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stderr is not None
            while not (line := process.stderr.readline()).startswith("headgate webhook is ready: "):
                assert line, "the webhook ended"
            urls.append(line.split(": ", 1)[1].strip())
            readers.append(threading.Thread(target=process.stderr.read))
            readers[-1].start()
        webhook = Webhook(name, "default", urls, failure_policy, cluster)
        webhook.configure(urls[0])
        made.append(webhook)
        return webhook

    yield run
    for each in made:
        cluster.kubectl("delete", "validatingwebhookconfiguration", each.name)
    for process in processes:
        process.terminate()
    for process, reader in zip(processes, readers, strict=True):
        assert process.wait() == 0
        reader.join()
        process.stderr.close()
