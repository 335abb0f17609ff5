"""What Kubernetes fills in for its own kinds where nobody said anything, and `kubectl describe` shows."""

from __future__ import annotations

from typing import Any

from headgate.api.admission import quantities

Object = dict[str, Any]

_SERVICE = {"type": "ClusterIP", "sessionAffinity": "None"}
_TRAFFIC = {"internalTrafficPolicy": "Cluster"}
_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


def default_deployment(deployment: Object) -> None:
    """A rollout replaces a quarter of the Pods at a time."""
    quantities.default_template(deployment)
    spec = deployment.get("spec")
    strategy = _part(spec, "strategy")
    _fill(strategy, {"type": "RollingUpdate"})
    if strategy is not None and strategy["type"] == "RollingUpdate":
        _fill(_part(strategy, "rollingUpdate"), _ROLLING)


def default_service(service: Object) -> None:
    """Inside the cluster, over TCP, to the port of the same number."""
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
    """The part of this name, made if it is not there; None if there is something else, or no parent."""
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
