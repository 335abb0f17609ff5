"""Kubernetes' own defaults for its kinds, which `kubectl describe` shows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from headgate.kubeschema import quantity

__all__ = ["default_pod", "default_template"]

Object = dict[str, Any]

_SERVICE = {"type": "ClusterIP", "sessionAffinity": "None"}
_TRAFFIC = {"internalTrafficPolicy": "Cluster"}
_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


def default_deployment(deployment: Object) -> None:
    """Fill in the defaults of a Deployment: a rollout replaces a quarter of the Pods at a time."""
    default_template(deployment)
    spec = deployment.get("spec")
    strategy = _part(spec, "strategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy is not None and strategy["type"] == "RollingUpdate":
        _fill(_part(strategy, "rollingUpdate"), _ROLLING)


def default_service(service: Object) -> None:
    """Fill in the defaults of a Service: inside the cluster, over TCP, to the port of the same number."""
    spec = service.get("spec")
    if not isinstance(spec, dict):
        return
    _fill(spec, _SERVICE)
    if spec["type"] != "ExternalName":
        _fill(spec, _TRAFFIC)
    ports = spec.get("ports")
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict):
            _fill(port, {"protocol": "TCP"} | ({"targetPort": port["port"]} if "port" in port else {}))


def _part(parent: Any, name: str) -> Object | None:
    """The part of this name, created if it is missing; None if it has another type, or there is no parent."""
    if not isinstance(parent, dict):
        return None
    if parent.get(name) is None:
        parent[name] = {}
    part = parent[name]
    return part if isinstance(part, dict) else None


def _fill(part: Object | None, defaults: Object) -> None:
    for name, value in defaults.items():
        if part is not None and part.get(name) is None:
            part[name] = value


# Quantities of containers in the form that Kubernetes stores: canonical, and no finer than a thousandth.
#
# Kubernetes decodes the objects of its own kinds and encodes them again: `cpu: 0.5` is stored as 500m, 1024Mi
# as 1Gi. An invalid quantity stays as it is, for the schema to report.
_MILLI = -3


def default_pod(pod: Object) -> None:
    """Canonicalize quantities, and set missing requests to the limits."""
    for resources in _resources(pod.get("spec")):
        limits = _store(resources, "limits")
        _store(resources, "requests")
        requests = resources.get("requests") or {}
        if limits and isinstance(requests, dict):
            resources["requests"] = limits | requests


def default_template(workload: Object) -> None:
    """Canonicalize quantities in the template of a Deployment or ReplicaSet."""
    spec = workload.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    for resources in _resources(template.get("spec") if isinstance(template, dict) else None):
        _store(resources, "limits")
        _store(resources, "requests")


def _resources(spec: object) -> Iterator[Object]:
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind) if isinstance(spec, dict) else None
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict):
                yield resources


def _store(resources: Object, kind: str) -> dict[str, str]:
    """Canonicalize the amounts of a kind, and return them."""
    amounts = resources.get(kind)
    if not isinstance(amounts, dict):
        return {}
    stored = {name: text for name, amount in amounts.items() if (text := _text(amount)) is not None}
    amounts.update(stored)
    return stored


def _text(amount: object) -> str | None:
    """The form that Kubernetes stores; None for an invalid quantity."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return None
    text = str(amount).strip()
    return _short_text(text) if len(text) <= _SHORT else _canonical(text)


_SHORT = 32


@functools.lru_cache(maxsize=1024)
def _short_text(text: str) -> str | None:
    return _canonical(text)


def _canonical(text: str) -> str | None:
    try:
        found = quantity.parse(text)
    except quantity.QuantityError:
        return None
    if found.exponent < _MILLI:
        found = quantity.Quantity(found.rounded_up(_MILLI), _MILLI, found.format)
    return str(found)
