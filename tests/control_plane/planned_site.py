"""Variants of models on a real control plane: the chart's gateway and controller, simulated engines on a
process node, and what tests ask of them; `planning/conftest.py` has the fixtures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import yaml
from clients import Load
from clusters import Cluster, wait_until
from prometheus import Prometheus
from traffic import route_to, server

PAGE = Path(__file__).parents[2] / "docs" / "beside-hpa-and-keda.md"
VARIANT: Final = "variantautoscalings.llmd.ai"
COSTS: Final = {
    "A100": '{"device": "NVIDIA-A100-PCIE-80GB", "cost": "40.00"}',
    "H100": '{"device": "NVIDIA-H100-80GB-HBM3", "cost": "100.00"}',
}
CLASSES: Final = {
    "premium.yaml": (
        "{name: Premium, priority: 1, data: [{model: chat, slo-tpot: 60, slo-ttft: 500},"
        " {model: sleepy, slo-tpot: 60, slo-ttft: 500}, {model: ghost, slo-tpot: 60, slo-ttft: 500}]}"
    ),
    "freemium.yaml": "{name: Freemium, priority: 10, data: [{model: batch, slo-tpot: 60, slo-ttft: 2000}]}",
}
SLEEPING: Final = {"model.sleepy": "{modelID: sleepy, enableScaleToZero: true, retentionPeriod: 5s}"}
MAIN: Final = "workload-variant-autoscaler-variantautoscaling-config"
TOKENS: Final = 128
ENGINE: Final = (
    *("--base-s=0.02", "--max-num-seqs=8", "--per-start-s=0"),
    *("--per-decode-sequence-s=0", "--per-kv-token-s=0", "--per-prefill-token-s=0"),
)
"""The emulator of the acceptance cases: 20 ms for each token, 8 requests at a time. For 128 tokens, a replica
meets the objective of `chat` for 1.73 requests a second, and that of `batch` for 2.23; it can run 3.1."""


def blocks(word: str) -> str:
    """The YAML of the page that has a word; the last one."""
    found: list[str] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return next(each for each in reversed(found) if word in each)


class Condition(NamedTuple):
    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Site:
    """One cluster with all that plans and scales."""

    cluster: Cluster
    namespace: str
    """That of the chart, and of the ConfigMaps."""
    models: str
    """That of the variants."""
    node: str
    """Which runs engines."""
    gateway: str
    """Host and port of the gateway."""
    controller: str
    """URL of the controller's metrics."""
    prometheus: Prometheus

    def config(self, name: str, data: Mapping[str, str]) -> None:
        """Writes a ConfigMap of planning, with these keys alone."""
        metadata = {"name": name, "namespace": self.namespace}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        self.cluster.apply(manifest, namespace=self.namespace)

    def unconfigure(self, name: str) -> None:
        """Deletes a ConfigMap of planning."""
        self.cluster.kubectl("delete", "configmap", name, "-n", self.namespace, "--ignore-not-found")

    def settings(self, **settings: str) -> None:
        """Writes the main ConfigMap."""
        self.config(MAIN, settings)

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.cluster.apply(*manifests, namespace=self.models)

    def delete(self, kind: str, name: str) -> None:
        self.cluster.kubectl("delete", kind, name, "-n", self.models, "--ignore-not-found")

    def get(self, kind: str, name: str) -> Any:
        return self.cluster.get(kind, name, "-n", self.models)

    def exists(self, kind: str, name: str) -> bool:
        found = self.cluster.kubectl("get", kind, name, "-n", self.models, "--ignore-not-found", "-o", "name")
        return bool(found.strip())

    def model(self, name: str) -> None:
        """A ModelServer for all variants of a model, and a route to it."""
        pods = {"workloadSelector": {"matchLabels": {"model": name}}, "model": name}
        self.apply(server(name, **pods), route_to(name, model=name, name=name))

    def variant(
        self,
        name: str,
        model: str,
        replicas: int,
        accelerator: str = "A100",
        slo: str = "premium.yaml",
        annotations: Mapping[str, str] | None = None,
        node: str = "",
    ) -> None:
        """A Deployment of engines, and its VariantAutoscaling."""
        variant = self._variant(name, model, accelerator, slo, annotations)
        self.apply(self._deployment(name, model, replicas, node or self.node), variant)

    def _deployment(self, name: str, model: str, replicas: int, node: str) -> dict[str, Any]:
        engine = {
            "name": "engine",
            "image": "headgate",
            "command": ["headgate", "simulate", "engine"],
            "args": [
                f"--model={model}",
                "--port=8000",
                "--per-prefill-token-s=0",
                "--per-start-s=0",
                *ENGINE,
            ],
            "ports": [{"containerPort": 8000}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
        }
        labels = {"app": name, "model": model}
        spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [engine]}
        template = {"metadata": {"labels": labels}, "spec": spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }

    def _variant(
        self, name: str, model: str, accelerator: str, slo: str, annotations: Mapping[str, str] | None
    ) -> dict[str, Any]:
        parameters = {
            "decodeParms": {"alpha": "20", "beta": "0"},
            "prefillParms": {"gamma": "20", "delta": "0"},
        }
        return {
            "apiVersion": "llmd.ai/v1alpha1",
            "kind": "VariantAutoscaling",
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {
                "modelID": model,
                "variantID": f"{model}-{accelerator}-1",
                "accelerator": accelerator,
                "acceleratorCount": 1,
                "sloClassRef": {"name": "service-classes-config", "key": slo},
                "variantProfile": {"maxBatchSize": 8, "perfParms": parameters},
            },
        }

    def manifest(self, kind: str, name: str, **words: str) -> dict[str, Any]:
        """An object of the page for a variant, with some words replaced."""
        text = blocks(f"kind: {kind}").replace("team-a", self.models).replace("chat-a100", name)
        for old, new in words.items():
            assert old in text
            text = text.replace(old, new)
        found: dict[str, Any] = yaml.safe_load(text)
        return found

    def replicas(self, name: str) -> int:
        """Those that a Deployment has to have."""
        return int(self.get("deployment", name)["spec"]["replicas"])

    def ready(self, name: str) -> int:
        return int(self.get("deployment", name).get("status", {}).get("readyReplicas", 0))

    def desired(self, name: str) -> int | None:
        """Replicas by the status of a variant."""
        allocation = self.get(VARIANT, name).get("status", {}).get("desiredOptimizedAlloc")
        return None if allocation is None else int(allocation["numReplicas"])

    def condition(self, name: str, kind: str) -> Condition:
        status = self.get(VARIANT, name).get("status", {})
        said = [each for each in status.get("conditions", []) if each["type"] == kind]
        return Condition(*(said[0][each] for each in Condition._fields)) if said else Condition()

    def says(self, name: str, kind: str, status: str, reason: str) -> str:
        """A variant gets this condition; returns its message."""
        last: list[Condition] = []

        def is_so() -> bool:
            last[:] = [self.condition(name, kind)]
            return last[0][:2] == (status, reason)

        try:
            wait_until(is_so)
        except AssertionError:
            raise AssertionError(f"{name} says {last}, not {kind}={status}, {reason}") from None
        return last[0].message

    def gauges(self, metric: str = "inferno_desired_replicas") -> dict[str, float]:
        """A metric of the controller, by the name of the variant."""
        page = httpx2.get(f"{self.controller}/metrics", trust_env=False, timeout=60).text
        lines = [line for line in page.splitlines() if line.startswith(f"{metric}{{")]
        found = {}
        for line in lines:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["namespace"] == self.models:
                found[labels["variant_name"]] = float(line.split()[-1])
        return found

    def scaling_active(self, autoscaler: str) -> str:
        """The status of this condition of a HorizontalPodAutoscaler: whether it has its metric."""
        conditions = self.get("hpa", autoscaler).get("status", {}).get("conditions", [])
        return next((each["status"] for each in conditions if each["type"] == "ScalingActive"), "")

    def passes(self) -> float:
        """How many passes there were so far."""
        page = httpx2.get(f"{self.controller}/metrics", trust_env=False, timeout=60).text
        lines = [line for line in page.splitlines() if line.startswith("headgate_controller_planning_passes")]
        return sum(float(line.split()[-1]) for line in lines)

    def ask(self, model: str, rate: float) -> Load:
        """Clients of a model, with a constant number of requests a second during the block."""
        message = {"role": "user", "content": "How deep is the canal? " * 4}
        body = {"model": model, "max_tokens": TOKENS, "messages": [message]}
        return Load(lambda: [self.gateway], rate, body)


def until_steady(holds: Callable[[], bool], for_s: float) -> None:
    """Waits until something has held for some time."""
    since: list[float] = []

    def is_so() -> bool:
        if not holds():
            since.clear()
            return False
        since.append(time.monotonic())
        time.sleep(0.5)
        return since[-1] - since[0] >= for_s

    wait_until(is_so)


def took(holds: Callable[[], Any], began: float) -> float:
    """Waits until something holds; returns how many seconds after `began`."""
    wait_until(holds)
    return time.monotonic() - began
