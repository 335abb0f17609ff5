"""Rows of what keeps Pods running: Deployments, ReplicaSets, StatefulSets, and their autoscalers."""

from __future__ import annotations

import datetime
from typing import Any

from headgate.apiserver.tables.ages import UNKNOWN, age
from headgate.apiserver.tables.values import NONE, mapping

Object = dict[str, Any]


def deployment(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def replica_set(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def stateful_set(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [ready, age(obj, now), *_template(spec)[:2]]


def _template(spec: Object) -> list[str]:
    pod = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        ",".join(str(c.get("name", "")) for c in pod),
        ",".join(str(c.get("image", "")) for c in pod),
        ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE,
    ]


def autoscaler(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    metrics = [_metric(metric) for metric in spec.get("metrics") or []]
    if percent := spec.get("targetCPUUtilizationPercentage"):
        metrics.append(f"cpu: {UNKNOWN}/{percent}%")
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        ", ".join(metrics[:2]) + (f" + {len(metrics) - 2} more..." if len(metrics) > 2 else "") or NONE,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def _metric(metric: Object) -> str:
    """A metric with its target; what it is now, nobody has measured here."""
    own = mapping(metric.get(str(metric.get("type", "")).lower()))
    target = mapping(own.get("target"))
    if percent := target.get("averageUtilization"):
        return f"{own.get('name', '')}: {UNKNOWN}/{percent}%"
    value = target.get("averageValue")
    return f"{UNKNOWN}/{value} (avg)" if value else f"{UNKNOWN}/{target.get('value', '')}"
