"""One site for all tests of a file: variants with load, a Prometheus, and those who read it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aggregation import aggregated_api
from charts import find_helm
from clients import Load
from clusters import Cluster, namespaces, wait_until
from containers import containers_in, write_settings
from faulty_prometheus import Front, running_front
from keda import make_certificate, running_keda
from nodes import fake_node, kept_ready, process_nodes, untainted
from planned_site import CLASSES, COSTS, SLEEPING, Site, blocks, took, until_steady
from prometheus import scrapes_of, start_adapter, start_prometheus, write_config
from traffic import answers, programs_in

RANGE = "10.244.81.0/28"
"""Addresses of engines, which Prometheus scrapes whether there is one or not."""
ENGINES = [f"10.244.81.{number}:8000" for number in range(1, 15)]
EXTERNAL = "external.metrics.k8s.io"
RATE = 4.0
"""Requests a second for `chat`: three replicas, which are enough for 5.2."""
SETTLED_S = 15.0
"""By then, requests that waited for the first replicas have been served."""
PERIOD = "GLOBAL_OPT_INTERVAL"


@dataclass
class Running:
    """A Prometheus that can be stopped and started again."""

    file: Path
    """Its configuration."""
    start: Callable[[], contextlib.AbstractContextManager[Any]]
    stack: ExitStack = field(default_factory=ExitStack)

    def begin(self) -> Any:
        return self.stack.enter_context(self.start())

    def end(self) -> None:
        self.stack.close()

    def keep_only(self, job: str) -> None:
        """Removes all other jobs from the configuration."""
        config = json.loads(self.file.read_text())
        config["scrape_configs"] = [each for each in config["scrape_configs"] if each["job_name"] == job]
        self.file.write_text(json.dumps(config))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planning")


@pytest.fixture(scope="module")
def ends() -> Iterator[ExitStack]:
    """What ends with the file."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def scraping(directory: Path, monitoring: Any, unused_tcp_port_factory: Any, ends: ExitStack) -> Running:
    """Prometheus, which is not started yet."""
    port, file = unused_tcp_port_factory(), directory / "prometheus.json"

    @contextlib.contextmanager
    def start() -> Iterator[Any]:
        with programs_in(directory) as run:
            yield start_prometheus(monitoring, run, file, port)

    running = Running(file, start)
    ends.callback(running.end)
    return running


@pytest.fixture(scope="module")
def site(cluster: Cluster, new_address: Any, directory: Path, scraping: Running, ends: ExitStack) -> Site:
    """The chart's gateway and controller with their own accounts, and a process node."""
    make = ends.enter_context(namespaces(cluster))
    namespace, models = make(), make()
    host = ends.enter_context(kept_ready(untainted(ends.enter_context(fake_node(cluster)))))
    chart = _chart(cluster, namespace, models, host.name, directory)
    engines = ends.enter_context(process_nodes(cluster, directory))(f"engines-{models}", RANGE).name
    for name, data in (
        ("accelerator-unit-costs", COSTS),
        ("service-classes-config", CLASSES),
        ("model-scale-to-zero-config", SLEEPING),
    ):
        metadata = {"name": name, "namespace": namespace}
        cluster.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, namespace=namespace
        )
    run = ends.enter_context(containers_in(directory))
    addresses = {}
    for component, port in (("gateway", 8081), ("controller", 9090)):
        [pod] = wait_until(
            lambda word=component: [name for name in host.scheduled(namespace) if f"headgate-{word}" in name]
        )
        addresses[component] = address = new_address()
        kubeconfig = cluster.kubeconfig_of(f"headgate-{component}", namespace, directory)
        run(chart, component, address, kubeconfig, pod)
        wait_until(lambda url=f"http://{address}:{port}/readyz": answers(url))
        host.run(pod, namespace, address)
    write_config(scraping.file, _scrapes(cluster, namespace, models, chart))
    site = Site(
        cluster,
        namespace,
        models,
        engines,
        f"{addresses['gateway']}:8080",
        f"http://{addresses['controller']}:9090",
        scraping.begin(),
    )
    site.settings()
    return site


def _chart(cluster: Cluster, namespace: str, models: str, node: str, directory: Path) -> list[dict[str, Any]]:
    place = {"replicas": 1, "nodeSelector": {"kubernetes.io/hostname": node}}
    values = {
        "watchNamespaces": [models],
        "monitoring": {"podMonitor": {"enabled": True}},
        "admission": {"policies": {"enabled": False}},
        "gateway": place,
        "controller": place,
    }
    rendered = find_helm("3", directory).template(values, namespace)
    for where in (namespace, models):
        own = [
            each
            for each in rendered
            if each["kind"] != "PodMonitor" and each["metadata"].get("namespace", namespace) == where
        ]
        cluster.apply(*own, namespace=where)
    write_settings(rendered, directory)
    return rendered


def _scrapes(
    cluster: Cluster, namespace: str, models: str, chart: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The controller by its PodMonitor, and engines as those of vLLM are scraped."""
    engines = {"targets": ENGINES, "labels": {"namespace": models}}
    return [
        *scrapes_of(cluster, namespace, list(chart), "controller"),
        {"job_name": "engines", "static_configs": [engines]},
    ]


@pytest.fixture(scope="module")
def external(site: Site, monitoring: Any, new_address: Any, directory: Path, ends: ExitStack) -> Any:
    """prometheus-adapter with the rule of the page; returns a block that registers its API."""
    file, address = directory / "adapter.yaml", new_address()
    file.write_text(blocks("externalRules"))
    run = ends.enter_context(programs_in(directory))
    start_adapter(site.cluster, monitoring, run, site.prometheus, file, address)
    return lambda: aggregated_api(site.cluster, site.namespace, "adapter", address, EXTERNAL, "v1beta1")


@pytest.fixture
def keda(site: Site, new_address: Any, unused_tcp_port_factory: Any, directory: Path) -> Iterator[None]:
    """KEDA for the variants, in place of the adapter."""
    ports = [unused_tcp_port_factory() for _ in range(3)]
    with (
        programs_in(directory) as run,
        running_keda(site.cluster, site.namespace, site.models, run, new_address(), ports, directory),
    ):
        yield


@dataclass
class Step:
    """What became of a load that began at once, in seconds since."""

    desired_s: float
    replicas_s: float
    ready_s: float
    settled_at: float
    """A time of `time.monotonic`."""
    desired: dict[str, float]
    """Replicas by variant."""
    load: Load


@pytest.fixture(scope="module")
def chat(site: Site) -> Site:
    """Two variants of the model `chat`: one replica of the cheap one runs, and none of the other."""
    site.model("chat")
    site.variant("chat-a100", "chat", 1)
    site.variant("chat-h100", "chat", 0, accelerator="H100")
    wait_until(lambda: site.ready("chat-a100") == 1)
    wait_until(lambda: site.gauges() == {"chat-a100": 1, "chat-h100": 0})
    return site


@pytest.fixture(scope="module")
def busy(chat: Site, external: Any, ends: ExitStack) -> Step:
    """A HorizontalPodAutoscaler scales `chat-a100`, and clients have begun."""
    site = chat
    ends.enter_context(external())
    words = {"stabilizationWindowSeconds: 300": "stabilizationWindowSeconds: 0"}
    site.apply(site.manifest("HorizontalPodAutoscaler", "chat-a100", **words))
    wait_until(lambda: site.scaling_active("chat-a100") == "True")
    load = ends.enter_context(site.ask("chat", RATE))
    began = time.monotonic()
    desired_s = took(lambda: site.gauges()["chat-a100"] > 1 and site.desired("chat-a100") > 1, began)
    replicas_s = took(lambda: site.replicas("chat-a100") == 3, began)
    ready_s = took(lambda: site.ready("chat-a100") == 3, began)
    wait_until(lambda: site.gauges("inferno_desired_ratio")["chat-a100"] == 1)
    until_steady(lambda: site.gauges()["chat-a100"] == site.ready("chat-a100") == 3, SETTLED_S)
    return Step(desired_s, replicas_s, ready_s, time.monotonic(), site.gauges(), load)


@pytest.fixture(scope="module")
def front(busy: Step, site: Site, directory: Path, unused_tcp_port_factory: Any) -> Iterator[Front]:
    """The planner asks Prometheus, by https and with a token, and plans every two seconds."""
    certificates = directory / "front"
    make_certificate(certificates, "127.0.0.1")
    with running_front(site.prometheus.url, certificates, unused_tcp_port_factory()) as front:
        site.settings(
            PROMETHEUS_BASE_URL=front.url,
            PROMETHEUS_CA_CERT_PATH=str(certificates / "ca.crt"),
            PROMETHEUS_BEARER_TOKEN=front.token,
            **{PERIOD: "2s"},
        )
        wait_until(lambda: front.answered)
        site.says("chat-a100", "MetricsAvailable", "True", "MetricsFound")
        yield front
        site.settings()
