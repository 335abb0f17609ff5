"""Prometheus scrapes a gateway and a controller as the PodMonitors of the chart say, and evaluates its alerts
and the dashboard: each metric and label that they name is there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from containers import write_settings
from traffic import MODEL, answers, route_to, server

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "headgate-alerts.yaml"
DASHBOARD = DEPLOY / "helm" / "headgate" / "files" / "dashboard.json"
VARIABLES = {"$namespace": ".*", "$pod": ".*", "$__rate_interval": "1m"}
"""Of Grafana."""

_SELECTOR = re.compile(r"\b((?:headgate|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
_GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")

AFTER_AN_EVENT = {
    "headgate_controller_autoscaling_forecast_error_replicas",
    "headgate_controller_autoscaling_metric_target",
    "headgate_controller_autoscaling_metric_value",
    "headgate_controller_autoscaling_metrics_missing",
    "headgate_controller_autoscaling_not_ready",
    "headgate_controller_autoscaling_panic",
    "headgate_controller_autoscaling_replicas",
    "headgate_controller_autoscaling_start_seconds",
    "headgate_gateway_attempts_failed_total",
    "headgate_gateway_authentication_failures_total",
    "headgate_gateway_fallbacks_total",
    "headgate_gateway_flow_control_queue_size",
    "headgate_gateway_flow_control_request_queue_duration_seconds_bucket",
    "headgate_gateway_flow_control_requests_total",
    "headgate_gateway_limit_source_away",
    "headgate_gateway_objects_invalid_files",
    "headgate_gateway_pool_first_token_objectives_total",
    "headgate_gateway_provider_usable",
    "headgate_gateway_providers_valid",
    "headgate_gateway_rejected_total",
    "headgate_gateway_retries_total",
    "headgate_gateway_tenant_requests_total",
    "headgate_gateway_tenant_tokens_total",
    "headgate_gateway_tls_certificate_expiry_timestamp_seconds",
    "headgate_gateway_tls_certificate_valid",
    "headgate_gateway_url_servers",
}
"""Metrics without a series as long as nothing fails, waits, is scaled or needs Redis, and without TLS,
external providers and objects from files. Their labels are checked by
tests/docs/test_the_pages_on_telemetry_are_true.py."""


def expressions() -> Iterator[str]:
    """Those of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield expression


class Pages:
    """What Prometheus has scraped."""

    def __init__(self, prometheus: Any) -> None:
        self._prometheus = prometheus
        metadata = httpx2.get(f"{prometheus.url}/api/v1/metadata", trust_env=False, timeout=60)
        self._families = set(metadata.json()["data"])
        self._labels: dict[str, set[str]] = {}
        self.without_series: set[str] = set()

    def mistakes(self, expression: str) -> set[str]:
        """Names of metrics and labels in an expression that do not exist."""
        found, known = set(), {"le", "instance"}
        for name, matchers in _SELECTOR.findall(expression):
            labels = self.labels(name)
            known |= labels
            if not self._is_family(name):
                found.add(name)
            elif labels:
                found |= {*_MATCHER.findall(matchers)} - labels
            else:
                self.without_series.add(name)
                known |= {label for some in _GROUPING.findall(expression) for label in some.split(", ")}
        grouped = {label for some in _GROUPING.findall(expression) for label in some.split(", ")}
        return found | (grouped - known)

    def labels(self, name: str) -> set[str]:
        """Of all series of a metric, also if the last scrape was too slow."""
        if name not in self._labels:
            series = self._prometheus.query(f"last_over_time({name}[10m])")
            self._labels[name] = {label for each in series for label in each["metric"]}
        return self._labels[name]

    def _is_family(self, name: str) -> bool:
        stems = {name, *(name.removesuffix(suffix) for suffix in ("_total", "_bucket", "_sum", "_count"))}
        return bool(stems & self._families)


@pytest.fixture
def prometheus(
    cluster,
    helm,
    namespace,
    lasting_node,
    new_address,
    run_container,
    start_engine,
    run_prometheus,
    tmp_path,
    eventually,
) -> Any:
    """It has scraped a gateway with traffic and a controller, and evaluated the alerts."""
    values = {
        "watchNamespace": namespace,
        "monitoring": {"podMonitor": {"enabled": True}, "alerts": {"enabled": True}},
        "admission": {"policies": {"enabled": False}},
        "gateway": {
            "replicas": 1,
            "nodeSelector": {"kubernetes.io/hostname": lasting_node.name},
            "settings": {"auth": {"mode": "off"}},  # said, so that it is no reason for an alert
        },
        "controller": {"replicas": 1, "nodeSelector": {"kubernetes.io/hostname": lasting_node.name}},
    }
    chart = helm.template(values, namespace)
    write_settings(chart, tmp_path)
    own = ("PodMonitor", "PrometheusRule")
    cluster.apply(*(each for each in chart if each["kind"] not in own), namespace=namespace)
    [spec] = [each["spec"] for each in chart if each["kind"] == "PrometheusRule"]
    (rules := tmp_path / "rules.json").write_text(json.dumps(spec))

    start_engine("engine")
    limited = route_to("engine")
    limited["spec"]["rateLimit"] = {"inputTokensPerUnit": 100, "unit": "hour"}
    cluster.apply(server("engine"), limited, namespace=namespace)
    addresses = {}
    for component, port in (("gateway", 8081), ("controller", 9090)):
        [pod] = eventually(
            lambda component=component: [
                name for name in lasting_node.scheduled(namespace) if f"headgate-{component}" in name
            ]
        )
        addresses[component] = place = new_address()
        account = cluster.kubeconfig_of(f"headgate-{component}", namespace, tmp_path)
        run_container(chart, component, place, account, pod)
        eventually(lambda place=place, port=port: answers(f"http://{place}:{port}/readyz"))
        lasting_node.run(pod, namespace, place)

    started = run_prometheus(chart, "gateway", "controller", rules=[rules])
    url = f"http://{addresses['gateway']}:8080/v1/chat/completions"
    message = {"role": "user", "content": "Hello " * 50}
    body = {"model": MODEL, "stream": True, "max_tokens": 4, "messages": [message]}
    eventually(lambda: httpx2.post(url, json=body, trust_env=False, timeout=60).status_code == 200)
    eventually(lambda: httpx2.post(url, json=body, trust_env=False, timeout=60).status_code == 429)
    eventually(lambda: len(started.query("count by (job) (up == 1)")) == 2)
    eventually(lambda: started.query('headgate_gateway_requests_total{code="200"}'))
    eventually(lambda: all(rule["health"] != "unknown" for rule in started.rules()))
    return started


@pytest.mark.parametrize("helm", ["3"], indirect=True)
def test_alerts_and_panels_name_what_there_is(prometheus):
    """And none of the alerts fires, or cannot be evaluated."""
    pages = Pages(prometheus)
    rules = prometheus.rules()
    assert len(rules) > 10
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    panels = list(expressions())
    assert len(panels) > 20
    queries = [*(rule["query"] for rule in rules), *panels]
    for query in queries:
        prometheus.query(query)
    assert {query: found for query in queries if (found := pages.mistakes(query))} == {}
    assert sorted(pages.without_series) == sorted(AFTER_AN_EVENT)
    assert [rule["name"] for rule in rules if rule["alerts"]] == []

    # What the test would find.
    assert pages.mistakes("headgate_gateway_redy == 0") == {"headgate_gateway_redy"}
    assert pages.mistakes('sum by (pol) (headgate_gateway_ready{pood="a"})') == {"pol", "pood"}


def test_the_alerts_are_valid(monitoring):
    words = [monitoring["promtool"], "check", "rules", ALERTS]
    checked = subprocess.run(words, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS" in checked.stdout
