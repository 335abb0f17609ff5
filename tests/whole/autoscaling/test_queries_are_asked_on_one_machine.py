"""`headgate up` tells its controllers of a Prometheus server, and serves their metrics."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.whole

MANIFESTS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: engine, command: [sleep, "1000"]}]}
---
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: p, namespace: default}
spec: {metrics: [{metricName: "prometheus:up", targetValue: 1}]}
---
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: web, namespace: default}
spec:
  policyRef: {name: p}
  scalingConfiguration:
    target: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
    minReplicas: 0
    maxReplicas: 2
"""


def test_a_server_that_is_named_is_asked(new_machine, ports, eventually, tmp_path: Path) -> None:
    """The binding says that this one does not respond, and not that none is known."""
    file = tmp_path / "web.yaml"
    file.write_text(MANIFESTS)
    machine = new_machine(file)
    port = ports()["metrics-port"]
    machine.start(flags=["--prometheus", "http://127.0.0.1:9", "--controller-metrics-port", str(port)])

    def told() -> str:
        status = json.loads(machine.kubectl("get", "aspb", "web", "-o", "json")).get("status", {})
        said = {each["type"]: each["message"] for each in status.get("conditions", [])}
        return str(said.get("MetricsAvailable", ""))

    eventually(lambda: "prometheus:up" in told(), 120)
    assert "no Prometheus is known" not in told()
    page = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
    assert "headgate_controller_autoscaling_passes_total" in page
