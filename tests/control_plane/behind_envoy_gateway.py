"""Envoy Gateway in a real control plane, which configures Envoy to ask Headgate's picker. Manifests are those
of docs/envoy-gateway.md.

A process node runs all Pods: its file of images maps Envoy Gateway, Envoy AI Gateway and Envoy to the
programs that are built or installed here. There is no DNS, so Pods that look up Services get a file with
their names.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from charts import Helm, find_helm
from clusters import TOOL, WAIT_S, Cluster, control_plane, wait_until
from nodes import process_nodes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "envoy-gateway.md"
PODS = "10.244.96.0/24"
MODEL = "llama"
POOL_HOST, SERVICE_HOST = "llama.example.com", "service.example.com"
"""Hosts of the HTTPRoutes of the page: to an InferencePool, and to a Service with a policy."""
ENGINES = 3
SYSTEM, EXTENSION = "envoy-gateway-system", "envoy-ai-gateway-system"
SKIPPING = 'test "$1" != "$0" || shift; exec "$PROGRAM" "$@"'
"""Runs a program with the arguments of its container, whose own command may be the first one."""
PICKER = 'exec headgate "$@" --host "$POD_IP"'


def blocks(*wanted: str) -> list[dict[str, Any]]:
    """Objects of the page, those of the blocks that have one of some words."""
    found = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    texts = [each for each in found if any(word in each for word in wanted)]
    assert len(texts) == len(wanted)
    return [manifest for text in texts for manifest in yaml.safe_load_all(text)]


@dataclass(frozen=True)
class Site:
    """A control plane with Envoy Gateway, Envoy, Headgate's picker and simulated engines."""

    cluster: Cluster
    envoy: str
    """The URL of the Gateway."""

    def ask(self, host: str, prompt: str, timeout_s: float = 60, **body: Any) -> httpx2.Response:
        """A chat completion through a route, by its host."""
        message = {"role": "user", "content": prompt}
        return httpx2.post(
            f"{self.envoy}/v1/chat/completions",
            json={"model": MODEL, "max_tokens": 2, "messages": [message], **body},
            headers={"host": host, "x-headgate-explain": "1"},
            trust_env=False,
            timeout=timeout_s,
        )

    def pods(self, app: str) -> dict[str, str]:
        """Addresses of ready Pods with a label, by name."""
        found = self.cluster.get("pods", "-l", app)["items"]
        return {each["metadata"]["name"]: each["status"]["podIP"] for each in found if is_ready(each)}

    def served(self) -> dict[str, int]:
        """How many requests each engine has finished, by address."""
        counts = {}
        for address in self.pods(f"app={MODEL}").values():
            page = httpx2.get(f"http://{address}:8000/metrics", trust_env=False, timeout=60).text
            lines = [line for line in page.splitlines() if line.startswith("vllm:request_success_total")]
            counts[address] = sum(int(float(line.split()[-1])) for line in lines)
        return counts

    def kill(self, *words: str) -> None:
        """Kills the process whose command line has these words; its node starts it again."""
        [pid] = wait_until(lambda: _pids(words))  # it may just have been killed
        os.kill(pid, signal.SIGKILL)


def decision(response: httpx2.Response) -> dict[str, str]:
    """What the picker says of a request."""
    parts = response.headers["x-headgate-decision"].split("; ")
    return dict(part.split("=", 1) for part in parts)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Iterator[Site]:
    """All of it, once: the charts are installed by Helm."""
    suite, directory = _suite(), tmp_path_factory.mktemp("envoy-gateway")
    helm = find_helm("3", directory)
    names = directory / "hosts"
    names.write_text("127.0.0.1 localhost\n")
    images = directory / "images.yaml"
    images.write_text(yaml.safe_dump({"images": list(_images(suite))}))
    with (
        control_plane(directory / "plane", programs) as cluster,
        process_nodes(cluster, directory) as run_node,
    ):
        run_node("pods", PODS, f"--images={images}")
        cluster.define("-k", ROOT / "deploy" / "crds")
        _install_envoy_gateway(helm, cluster, suite, names)
        cluster.kubectl("apply", "-k", ROOT / "deploy" / "kustomize" / "picker")
        [patch] = re.findall(r"kubectl patch (deployment.*?) '(.*)'", PAGE.read_text())
        cluster.kubectl("patch", *patch[0].split(), patch[1])
        cluster.apply(*_engines())
        cluster.apply(*_gateway(names), *blocks("endpointPickerRef:", "extProc:"))
        yield Site(cluster, _started(cluster, names))


def _suite() -> Path:
    words = [sys.executable, TOOL, "path-suite", "envoy-gateway"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    if not found:
        pytest.skip("Envoy Gateway is not built: `make envoy-gateway`")
    return Path(found)


def _envoy() -> str:
    words = [ROOT / "tools" / "fetch_envoy.sh", "--path"]
    pinned = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    found = os.environ.get("HEADGATE_ENVOY") or shutil.which("envoy") or pinned
    if not Path(found).exists():
        pytest.skip("Envoy is not installed: `make envoy`")
    return found


def _images(suite: Path) -> Iterator[dict[str, Any]]:
    envoy, path = _envoy(), f"{suite}:{os.environ['PATH']}"
    for image, program in (("*/envoy", envoy), ("*/gateway*", str(suite / "envoy-gateway"))):
        yield {
            "image": image,
            "command": ["sh", "-c", SKIPPING, Path(program).name],
            "env": {"PROGRAM": program, "PATH": path},
            "wrap": True,
        }
    yield {"image": "*/ai-gateway-controller", "command": [str(suite / "ai-gateway-controller")]}
    yield {"image": "headgate", "command": ["sh", "-c", PICKER, "headgate"]}


def _install_envoy_gateway(helm: Helm, cluster: Cluster, suite: Path, names: Path) -> None:
    """As the page says. The chart gets its default values as in a release."""
    chart = helm.base / "gateway-helm"
    shutil.copytree(suite / "gateway-helm", chart)
    values = (chart / "values.tmpl.yaml").read_text()
    values = values.replace("${GatewayImage}", "example/gateway:v1").replace("${GatewayImagePullPolicy}", "")
    (chart / "values.yaml").write_text(values)
    [given] = blocks("extensionManager:")
    # Pods share the loopback device of this machine, where Envoy's own admin server has port 19000.
    given["config"]["envoyGateway"]["admin"] = {"address": {"host": "127.0.0.1", "port": 19010}}
    volume = _names_volume(names)
    pod = {"extraVolumes": volume["volumes"], "extraVolumeMounts": volume["volumeMounts"]}
    given |= {"deployment": {"pod": pod}, "topologyInjector": {"enabled": False}}
    place = ("--create-namespace", "--namespace")
    helm.run("install", "eg", chart, *place, SYSTEM, *helm.values(given), cluster=cluster)
    helm.run("install", "aieg-crd", suite / "ai-gateway-crds-helm", *place, EXTENSION, cluster=cluster)
    helm.run("install", "aieg", suite / "ai-gateway-helm", *place, EXTENSION, cluster=cluster)


def _names_volume(names: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        "volumes": [{"name": "names", "hostPath": {"path": str(names), "type": "File"}}],
        "volumeMounts": [{"name": "names", "mountPath": "/etc/hosts"}],
    }


def _gateway(names: Path) -> Iterator[dict[str, Any]]:
    """The Gateway of the page, with a proxy that suits this machine."""
    volume = _names_volume(names)
    deployment = {
        "pod": {"volumes": volume["volumes"]},
        "container": {"volumeMounts": volume["volumeMounts"]},
    }
    yield {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyProxy",
        "metadata": {"name": "local"},
        "spec": {
            "concurrency": 1,
            "provider": {
                "type": "Kubernetes",
                "kubernetes": {"envoyDeployment": deployment, "envoyService": {"type": "ClusterIP"}},
            },
            # On a port of all addresses, which Envoy Gateway has at its own.
            "telemetry": {"metrics": {"prometheus": {"disable": True}}},
        },
    }
    for manifest in blocks("kind: GatewayClass"):
        if manifest["kind"] == "GatewayClass":
            manifest["spec"]["parametersRef"] = {
                "group": "gateway.envoyproxy.io",
                "kind": "EnvoyProxy",
                "name": "local",
                "namespace": "default",
            }
        yield manifest


def _engines() -> Iterator[dict[str, Any]]:
    labels = {"app": MODEL}
    engine = {
        "name": "engine",
        "image": "headgate",
        "command": ["headgate", "simulate", "engine", f"--model={MODEL}", "--port=8000", "--host=$(POD_IP)"],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MODEL},
        "spec": {
            "replicas": ENGINES,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [engine]}},
        },
    }


def _started(cluster: Cluster, names: Path) -> str:
    """Waits until all Pods are ready; returns the URL of Envoy."""

    def all_are_ready() -> str | None:
        _write_names(cluster, names)
        pods = cluster.get("pods", "-A")["items"]
        envoys = [each for each in pods if "owning-gateway-name" in str(each["metadata"]["labels"])]
        running = [each for each in pods if each["status"]["phase"] != "Succeeded"]
        if not envoys or len(running) < ENGINES + 4 or not all(map(is_ready, running)):
            return None
        return f"http://{envoys[0]['status']['podIP']}:10080"

    url: str = wait_until(all_are_ready, 2 * WAIT_S)
    for host in (POOL_HOST, SERVICE_HOST):
        wait_until(lambda host=host: _lists_models(url, host))
    return url


def _lists_models(url: str, host: str) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        headers = {"host": host}
        return httpx2.get(f"{url}/v1/models", headers=headers, trust_env=False).status_code == 200
    return False


def _write_names(cluster: Cluster, names: Path) -> None:
    """The names of Services, each with the address of a ready Pod, in place: the file is mounted."""
    lines = ["127.0.0.1 localhost"]
    for each in cluster.get("endpointslices", "-A")["items"]:
        service = each["metadata"]["labels"]["kubernetes.io/service-name"]
        name = f"{service}.{each['metadata']['namespace']}.svc"
        ready = [found["addresses"][0] for found in each["endpoints"] or () if found["conditions"]["ready"]]
        lines += [f"{address} {name} {name}.cluster.local {name}.cluster.local." for address in ready[:1]]
    names.write_text("\n".join(lines) + "\n")


def _pids(words: tuple[str, ...]) -> list[int]:
    """Processes with these words in their command line, apart from the launchers of containers: only those in
    the network of this test, as other tests on this machine may run the same commands."""
    network, found = Path("/proc/self/ns/net").readlink(), []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (place / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
            is_launcher = any(word.endswith("launcher.py") for word in line)
            if {*words} <= {*line} and not is_launcher and (place / "ns" / "net").readlink() == network:
                found.append(int(place.name))
    return found
