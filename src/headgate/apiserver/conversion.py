"""Convert objects between their stored version and the requested one.

Versions differ by name only (conversion strategy None), except for HorizontalPodAutoscaler: parts of a v2
object that v1 cannot express are kept in annotations, as in Kubernetes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.registry import Served

Object = dict[str, Any]

HORIZONTAL = "horizontalpodautoscalers.autoscaling"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
DEFAULT_UTILIZATION = 80
"""Percent of the requested CPU, for an autoscaler without metrics."""


def to_served(obj: Object, served: Served) -> Object:
    """Convert a stored object to the requested version; `obj` is modified."""
    if served.resource == HORIZONTAL and served.version == "v1":
        _down(obj)
    obj["apiVersion"] = served.api_version
    return obj


def to_stored(obj: Object, served: Served) -> Object:
    """Convert an object from the request's version to the stored one; `obj` is modified."""
    if served.resource == HORIZONTAL:
        if served.version == "v1":
            _up(obj)
        if not obj["spec"].get("metrics"):
            obj["spec"]["metrics"] = [_cpu(DEFAULT_UTILIZATION)]
    obj["apiVersion"] = served.storage_api_version
    return obj


def _cpu(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percent(metric: Object) -> int | None:
    """The target of a metric that v1 can express: CPU utilization in percent."""
    resource = metric.get("resource") or {}
    target = resource.get("target")
    if metric.get("type") != "Resource" or resource.get("name") != "cpu" or not isinstance(target, dict):
        return None
    percent = target.get("averageUtilization")
    return percent if isinstance(percent, int) else None


def _down(obj: Object) -> None:
    spec, annotations = obj["spec"], {}
    others = []
    for metric in spec.pop("metrics", None) or []:
        percent = _percent(metric)
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(metric)
    if others:
        annotations[METRICS] = msgspec.json.encode(others).decode()
    if behavior := spec.pop("behavior", None):
        annotations[BEHAVIOR] = msgspec.json.encode(behavior).decode()
    if annotations:
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **annotations}


def _up(obj: Object) -> None:
    spec, annotations = obj["spec"], dict(obj["metadata"].get("annotations") or {})
    metrics, behavior = _read(annotations.pop(METRICS, None)), _read(annotations.pop(BEHAVIOR, None))
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = metrics if isinstance(metrics, list) else []
    spec["metrics"] = [*([_cpu(percent)] if percent else []), *(m for m in metrics if isinstance(m, dict))]
    if isinstance(behavior, dict):
        spec["behavior"] = behavior
    if annotations:
        obj["metadata"]["annotations"] = annotations
    else:
        obj["metadata"].pop("annotations", None)


def _read(text: str | None) -> Any:
    """The content of an annotation; None if it is not valid JSON."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
