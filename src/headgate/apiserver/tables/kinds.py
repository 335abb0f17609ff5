"""Kubernetes' own kinds: the headings of their Tables, and which function makes their rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.apiserver.tables import pods, services, workloads
from headgate.apiserver.tables.ages import UNKNOWN, age, since
from headgate.apiserver.tables.values import NONE, condition

Object = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """Headings with priorities, and the cells under them."""

    columns: tuple[tuple[str, int], ...]
    cells: Callable[[Object, datetime.datetime], list[Any]]
    name_priority: int = 0


def _namespace(obj: Object, now: datetime.datetime) -> list[Any]:
    return [(obj.get("status") or {}).get("phase", ""), age(obj, now)]


def _config_map(obj: Object, now: datetime.datetime) -> list[Any]:
    return [len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: Object, now: datetime.datetime) -> list[Any]:
    return [obj.get("type", "Opaque"), len(obj.get("data") or {}), age(obj, now)]


def _node(obj: Object, now: datetime.datetime) -> list[Any]:
    status = obj.get("status") or {}
    shown = {"True": "Ready", "False": "NotReady"}.get(condition(status, "Ready"), "Unknown")
    if (obj.get("spec") or {}).get("unschedulable"):
        shown += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))
    info = status.get("nodeInfo") or {}
    addresses = {a.get("type"): a.get("address") for a in reversed(status.get("addresses") or [])}
    return [
        shown,
        roles or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        *(addresses.get(type_) or NONE for type_ in ("InternalIP", "ExternalIP")),
        *(info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _event(obj: Object, now: datetime.datetime) -> list[Any]:
    about = obj.get("involvedObject") or {}
    last = obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp")
    source = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    return [
        since(last, now) if last else UNKNOWN,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        str(obj.get("message", "")).strip(),
        source,
        obj.get("count", 1),
    ]


def _definition_row(obj: Object, now: datetime.datetime) -> list[Any]:
    return [obj["metadata"].get("creationTimestamp", UNKNOWN)]


def _service_account(obj: Object, now: datetime.datetime) -> list[Any]:
    return [len(obj.get("secrets") or []), age(obj, now)]


def _columns(text: str) -> tuple[tuple[str, int], ...]:
    """Headings as text: comma-separated, those behind the bar only in wide output."""
    narrow, _, wide = text.partition("|")
    return tuple((n, p) for p, names in enumerate((narrow, wide)) for n in names.split(",") if n)


ROWS = {
    "pods": Row(_columns("Ready,Status,Restarts,Age|IP,Node,Nominated Node,Readiness Gates"), pods.row),
    "deployments.apps": Row(
        _columns("Ready,Up-to-date,Available,Age|Containers,Images,Selector"), workloads.deployment
    ),
    "replicasets.apps": Row(
        _columns("Desired,Current,Ready,Age|Containers,Images,Selector"), workloads.replica_set
    ),
    "statefulsets.apps": Row(_columns("Ready,Age|Containers,Images"), workloads.stateful_set),
    "horizontalpodautoscalers.autoscaling": Row(
        _columns("Reference,Targets,MinPods,MaxPods,Replicas,Age"), workloads.autoscaler
    ),
    "endpoints": Row(_columns("Endpoints,Age"), services.endpoints),
    "endpointslices.discovery.k8s.io": Row(
        _columns("AddressType,Ports,Endpoints,Age"), services.endpoint_slice
    ),
    "serviceaccounts": Row(_columns("Secrets,Age"), _service_account),
    "services": Row(_columns("Type,Cluster-IP,External-IP,Port(s),Age|Selector"), services.service),
    "namespaces": Row(_columns("Status,Age"), _namespace),
    "configmaps": Row(_columns("Data,Age"), _config_map),
    "secrets": Row(_columns("Type,Data,Age"), _secret),
    "nodes": Row(
        _columns(
            "Status,Roles,Age,Version|Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime"
        ),
        _node,
    ),
    "events": Row(_columns("Last Seen,Type,Reason,Object,Message|Source,Count"), _event, 1),
    "customresourcedefinitions.apiextensions.k8s.io": Row(_columns("Created At"), _definition_row),
}
