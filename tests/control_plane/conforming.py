"""Headgate as an implementation of the Gateway API in a real control plane, for the upstream suites.

A process node runs the Pods of the suites: a file maps their images to the programs that
`make conformance-suites` builds. Each Gateway has an address of its own, on which Headgate's gateway listens.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters import TOOL, WAIT_S, Cluster, control_plane, wait_until
from nodes import process_nodes
from traffic import programs_in

REPORTS_VARIABLE = "HEADGATE_TEST_REPORTS"
"""A directory to keep the reports in."""
ONLY_VARIABLE = "HEADGATE_TEST_ONLY"
"""The short name of a single test of the suites to run."""
CLASS = "headgate"
PODS, GATEWAYS = "10.244.64.0/24", "10.244.240.0/24"
HOST = "10.244.0.1"
STATIC, UNUSABLE = "10.244.241.1", "192.0.2.1"
"""Addresses that Gateways of a suite name; nothing can listen on the second one here."""


def suite_directory(name: str) -> Path:
    """Where the programs of a suite are; skips the test if they are not built."""
    words = [sys.executable, TOOL, "path-suite", name]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    if not found:
        pytest.skip(f"{name} is not built: `make conformance-suites`")
    return Path(found)


def echo_server(suite: Path) -> dict[str, Any]:
    """The image of the suites' backends, for the node."""
    return {"image": "*/echo-basic", "command": [str(suite / "echo-basic")]}


def conforms(report: dict[str, Any]) -> None:
    """Asserts that no core and no extended test failed."""
    [profile] = report["profiles"]
    for part in ("core", "extended"):
        found = profile.get(part)
        if found is not None:
            assert found["statistics"]["Failed"] == 0, f"{part}: {found}"


@dataclass(frozen=True)
class Site:
    """A control plane with Headgate in it."""

    cluster: Cluster
    directory: Path
    """For files of the test; the logs of all programs are there."""
    start: Callable[..., Path]
    """Starts a command of Headgate; returns the file of its output."""

    def run_suite(self, program: Path, report: str, *flags: str, limit_s: float) -> dict[str, Any]:
        """Runs the test program of a suite, and returns its report. What it prints is in a log."""
        file = self.directory / report
        words = [program, "-test.v", f"-test.timeout={limit_s:.0f}s", f"-gateway-class={CLASS}"]
        words += [f"-report-output={file}", "-organization=headgate", "-project=headgate"]
        words += ["-url=https://headgate.dev", f"-version={version('headgate')}", *flags]
        words += ["-contact=https://headgate.dev"]
        if only := os.environ.get(ONLY_VARIABLE):
            words.append(f"-run-test={only}")
        log = self.directory / f"{program.name}.log"
        with log.open("w") as output:
            environ = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)}
            subprocess.run(words, env=environ, stdout=output, stderr=subprocess.STDOUT, timeout=limit_s + 60)
        assert file.exists(), f"there is no report; the end of {log}:\n{log.read_text()[-4000:]}"
        if kept := os.environ.get(REPORTS_VARIABLE):
            Path(kept).mkdir(parents=True, exist_ok=True)
            (Path(kept) / report).write_text(file.read_text())
        found: dict[str, Any] = yaml.safe_load(file.read_text())
        return found


@pytest.fixture
def site(tmp_path: Path, programs: Path) -> Iterator[Callable[..., Site]]:
    """Starts the control plane, a node whose images are those of the suite, and Headgate, whose gateway is a
    Pod in a namespace."""
    with (
        control_plane(tmp_path / "plane", programs) as cluster,
        programs_in(tmp_path) as start,
        process_nodes(cluster, tmp_path) as run_node,
    ):

        def build(definitions: list[Path], images: list[dict[str, Any]], namespace: str) -> Site:
            for directory in definitions:
                cluster.define("-f", directory)
            file = tmp_path / "images.yaml"
            file.write_text(yaml.safe_dump({"images": images}))
            run_node("conformance", PODS, f"--images={file}")
            made = Site(cluster, tmp_path, start)
            _start_headgate(made, namespace)
            return made

        yield build


def _start_headgate(site: Site, namespace: str) -> None:
    kubeconfig = f"--kubeconfig={site.cluster.kubeconfig}"
    controller = site.start("controller", "controller", kubeconfig, f"--gateway-address={GATEWAYS}")
    site.cluster.apply(*_gateway(kubeconfig, namespace), namespace=namespace)
    site.cluster.apply(
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": CLASS},
            "spec": {"controllerName": "headgate.dev/gateway-controller"},
        }
    )
    wait_until(lambda: "ready" in controller.read_text(), WAIT_S)
    words = ("rollout", "status", "deployment/headgate-gateway", "-n", namespace)
    site.cluster.kubectl(*words, f"--timeout={WAIT_S:.0f}s")


def _gateway(kubeconfig: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Headgate's gateway, in one Pod."""
    command = ["headgate", "gateway", kubeconfig, f"--host={HOST}", "--port=8000"]
    command += ["--gateway-api-addresses=assigned"]
    probe = {"httpGet": {"host": HOST, "path": "/v1/models", "port": 8000}}
    labels = {"app": "headgate-gateway"}
    container = {"name": "gateway", "image": "headgate", "command": command, "readinessProbe": probe}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "headgate-gateway"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
