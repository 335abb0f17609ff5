"""Prometheus and the adapter that serves its metrics to Kubernetes; `conftest` imports the fixtures."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aggregation import PURPOSES, aggregated_api
from clusters import TOOL, wait_until
from traffic import answers

API = "custom.metrics.k8s.io"


@pytest.fixture(scope="session")
def monitoring() -> dict[str, Path]:
    """The programs that are found, by name; without those of Prometheus, the test is skipped."""
    found = subprocess.run(
        [sys.executable, TOOL, "path-monitoring"], capture_output=True, text=True, check=True
    )
    programs = {Path(line).name: Path(line) for line in found.stdout.split()}
    if not programs.keys() >= {"prometheus", "promtool"}:
        pytest.skip("there is no Prometheus: `make monitoring` builds it")
    return programs


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now."""
        answer = httpx2.get(
            f"{self.url}/api/v1/query", params={"query": expression}, trust_env=False, timeout=60
        )
        assert answer.status_code == 200, answer.text
        series: list[dict[str, Any]] = answer.json()["data"]["result"]
        return series

    def reload(self) -> None:
        """Reads its configuration again."""
        assert httpx2.post(f"{self.url}/-/reload", trust_env=False, timeout=60).status_code == 200

    def rules(self) -> list[dict[str, Any]]:
        """The rules that it evaluates, with their health."""
        answer = httpx2.get(f"{self.url}/api/v1/rules", trust_env=False, timeout=60)
        return [rule for group in answer.json()["data"]["groups"] for rule in group["rules"]]


@pytest.fixture
def run_prometheus(
    cluster, namespace, monitoring, start, tmp_path, unused_tcp_port_factory
) -> Callable[..., Prometheus]:
    """Starts one that scrapes the Pods of some components by their PodMonitors each second."""

    def run(rendered: list[dict[str, Any]], *components: str, rules: Sequence[Path] = ()) -> Prometheus:
        scrapes = scrapes_of(cluster, namespace, rendered, *components)
        file = tmp_path / "prometheus.json"
        write_config(file, scrapes, rules)
        return start_prometheus(monitoring, start, file, unused_tcp_port_factory())

    return run


def scrapes_of(
    cluster: Any, namespace: str, rendered: list[dict[str, Any]], *components: str
) -> list[dict[str, Any]]:
    """The scrape configurations for the Pods of some components, by their PodMonitors."""
    names = {f"headgate-{component}" for component in components}
    monitors = [
        each for each in rendered if each["kind"] == "PodMonitor" and each["metadata"]["name"] in names
    ]
    assert len(monitors) == len(components)
    pods = cluster.get("pods", "-n", namespace)["items"]
    return [_scrape(each, pods) for each in monitors]


def write_config(file: Path, scrapes: Sequence[dict[str, Any]], rules: Sequence[Path] = ()) -> None:
    """Of a Prometheus that scrapes each second."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(each) for each in rules],
        "scrape_configs": scrapes,
    }
    file.write_text(json.dumps(config))


def start_prometheus(
    programs: dict[str, Path], start: Callable[..., Path], file: Path, port: int
) -> Prometheus:
    """Starts one with a configuration; its data is beside that file."""
    words = [f"--config.file={file}", f"--storage.tsdb.path={file.with_suffix('')}"]
    words.append("--web.enable-lifecycle")
    address = f"127.0.0.1:{port}"
    start("prometheus", *words, f"--web.listen-address={address}", program=[programs["prometheus"]])
    wait_until(lambda: answers(f"http://{address}/-/ready"))
    return Prometheus(f"http://{address}")


def _scrape(monitor: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, Any]:
    """As the Prometheus operator reads a PodMonitor: its Pods with an address, and labels of their origin."""
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    targets = [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
                "container": container["name"],
            },
        }
        for pod in pods
        if wanted <= pod["metadata"].get("labels", {}).items() and pod["status"].get("podIP")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port["name"] == endpoint["port"]
    ]
    assert targets, f"no Pod has {dict(wanted)} and a port {endpoint['port']}"
    return {"job_name": monitor["metadata"]["name"], "static_configs": targets}


@pytest.fixture
def run_adapter(
    cluster, namespace, monitoring, start, new_address, tmp_path
) -> Iterator[Callable[..., None]]:
    """Starts the adapter with a configuration, and registers its API with the API server."""

    def run(prometheus: Prometheus, config: str) -> None:
        file = tmp_path / "adapter.yaml"
        file.write_text(config)
        address = new_address()
        start_adapter(cluster, monitoring, start, prometheus, file, address)
        for version in ("v1beta1", "v1beta2"):
            registered.enter_context(aggregated_api(cluster, namespace, "adapter", address, API, version))

    with contextlib.ExitStack() as registered:
        yield run


def start_adapter(
    cluster: Any,
    programs: dict[str, Path],
    start: Callable[..., Path],
    prometheus: Prometheus,
    file: Path,
    address: str,
) -> None:
    """Starts the adapter with a configuration at an address; its certificates are beside that file."""
    if "prometheus-adapter" not in programs:
        pytest.skip("there is no prometheus-adapter: `make monitoring` builds it")
    flags = [f"--config={file}", f"--prometheus-url={prometheus.url}/", "--metrics-relist-interval=1s"]
    flags += [f"--cert-dir={file.with_suffix('')}", f"--bind-address={address}", "--secure-port=6443"]
    flags += [f"--{purpose}-kubeconfig={cluster.kubeconfig}" for purpose in PURPOSES]
    start("prometheus-adapter", *flags, program=[programs["prometheus-adapter"]])
