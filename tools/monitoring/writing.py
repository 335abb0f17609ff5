"""The files that are made of the definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from alerts import GROUPS, Alert
from panels import ROWS, Panel
from queries import in_panel
from signals import INTERVAL, SIGNALS

ALERTS: Final = "deploy/prometheus/headgate-alerts.yaml"
RECORDS: Final = "deploy/prometheus/headgate-signals.yaml"
DASHBOARD: Final = "deploy/helm/headgate/files/dashboard.json"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_INLINE: Final = 100
"""Longest expression in one line."""


def files() -> dict[str, str]:
    """All of them, by their path in the repository."""
    return {ALERTS: alerts(), RECORDS: records(), DASHBOARD: dashboard()}


def alerts() -> str:
    lines = [
        "# Alerts for Prometheus; docs/metrics.md says what each metric counts. The thresholds are for you "
        "to change.",
        "# Generated from tools/monitoring by `make generated`.",
        "groups:",
    ]
    for name, group in GROUPS.items():
        lines += [f"  - name: {name}", "    rules:"]
        for alert in group:
            lines += _alert(alert)
    return "\n".join(lines) + "\n"


def _alert(alert: Alert) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield from _expr(alert.expr)
    if alert.lasts:
        yield f"        for: {alert.lasts}"
    yield f"        labels: {{severity: {alert.severity}}}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(alert.summary)}"


def _expr(expr: str) -> Iterator[str]:
    if "\n" not in expr and len(expr) <= _INLINE:
        yield f"        expr: {expr}"
        return
    yield "        expr: >-"
    for line in expr.split("\n"):
        yield f"          {line}"


def records() -> str:
    lines = [
        "# The signals of each pool, added up over all gateways, under the names that AutoscalingPolicies "
        "use (docs/signals.md). Labels",
        "# tell which object the pool is: its namespace, and its name as `modelserver` or `inferencepool`.",
        "# Generated from tools/monitoring by `make generated`.",
        "groups:",
        "  - name: headgate-signals",
        f"    interval: {INTERVAL}",
        "    rules:",
    ]
    for name, expr in SIGNALS.items():
        lines += [f"      - record: {name}", *_expr(_labelled(expr))]
    return "\n".join(lines) + "\n"


def _labelled(expr: str) -> str:
    return (
        f"label_replace(label_replace(label_replace(\n{expr},\n"
        '"namespace", "$1", "pool", "(?:[^/]+/)?([^/]+)/[^/]+"),\n'
        '"modelserver", "$1", "pool", "[^/]+/([^/]+)"),\n'
        '"inferencepool", "$1", "pool", "InferencePool/[^/]+/([^/]+)")'
    )


def dashboard() -> str:
    shown = {
        "title": "Headgate",
        "uid": "headgate",
        "tags": ["headgate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _choice("namespace", "label_values(headgate_gateway_ready, namespace)"),
                _choice("pod", 'label_values(headgate_gateway_ready{namespace=~"$namespace"}, pod)'),
            ]
        },
        "panels": list(_placed()),
    }
    return json.dumps(shown, indent=2) + "\n"


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed() -> Iterator[dict[str, Any]]:
    """Two panels in a line."""
    number, y = 0, 0
    for title, row in ROWS.items():
        number += 1
        place = {"h": 1, "w": 24, "x": 0, "y": y}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        y += 1
        for column, panel in enumerate(row):
            number += 1
            place = {"h": 8, "w": 12, "x": 12 * (column % 2), "y": y + 8 * (column // 2)}
            yield _panel(number, panel, place)
        y += 8 * ((len(row) + 1) // 2)


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.threshold is not None:
        steps = [{"color": "transparent", "value": None}, {"color": "red", "value": panel.threshold}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["custom"] = {"thresholdsStyle": {"mode": "dashed"}}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": in_panel(query),
                "legendFormat": legend,
            }
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
