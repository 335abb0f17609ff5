"""Kubernetes' own kinds: the columns and rows of their Tables."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.apiserver.tables.values import NONE, UNKNOWN, age, condition, mapping, mappings, since

Object = dict[str, Any]


def _pod_row(pod: Object, now: datetime.datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(bool(c.get("ready")) for c in containers)
    ips = status.get("podIP") or NONE
    node = spec.get("nodeName") or NONE
    gates = spec.get("readinessGates") or []
    return [
        f"{ready}/{len(spec.get('containers') or [])}",
        _pod_status(pod, containers),
        _restarts(containers, now),
        age(pod, now),
        ips,
        node,
        status.get("nominatedNodeName") or NONE,
        _gates(gates, status.get("conditions") or []) if gates else NONE,
    ]


def _pod_status(pod: Object, containers: list[Object]) -> str:
    status = pod.get("status") or {}
    shown: str = status.get("reason") or status.get("phase") or "Unknown"
    running = False
    for container in reversed(containers):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif terminated is not None:
            signal, code = terminated.get("signal"), terminated.get("exitCode", 0)
            shown = terminated.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{code}")
        elif container.get("ready") and "running" in state:
            running = True
    if shown == "Completed" and running:
        shown = "Running" if condition(status, "Ready") == "True" else "NotReady"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def _restarts(containers: list[Object], now: datetime.datetime) -> str:
    count = sum(c.get("restartCount", 0) for c in containers)
    ends = [
        end
        for c in containers
        if (end := ((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return f"{count} ({since(max(ends), now)} ago)" if count and ends else str(count)


def _gates(gates: list[Object], conditions: list[Object]) -> str:
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


def _service(obj: Object, now: datetime.datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or [])
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or []) or NONE,
        ports or NONE,
        age(obj, now),
        selector or NONE,
    ]


def _endpoint_slice(obj: Object, now: datetime.datetime) -> list[Any]:
    ports = ",".join(str(p.get("port", "*")) for p in obj.get("ports") or []) or "<unset>"
    found = [a for endpoint in obj.get("endpoints") or [] for a in endpoint.get("addresses") or []]
    return [obj.get("addressType", ""), ports, _some(found), age(obj, now)]


def _endpoints(obj: Object, now: datetime.datetime) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        ports = [f":{port.get('port')}" for port in mappings(subset.get("ports"))] or [""]
        found += [f"{a.get('ip')}{port}" for port in ports for a in mappings(subset.get("addresses"))]
    return [_some(found), age(obj, now)]


def _some(names: list[str]) -> str:
    """Up to three names, and how many more there are."""
    shown = ",".join(names[:3])
    return f"{shown} + {len(names) - 3} more..." if len(names) > 3 else shown or NONE


def _deployment(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def _replica_set(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def _stateful_set(obj: Object, now: datetime.datetime) -> list[Any]:
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


def _autoscaler(obj: Object, now: datetime.datetime) -> list[Any]:
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
    """A metric with its target; the current value is not measured here."""
    own = mapping(metric.get(str(metric.get("type", "")).lower()))
    target = mapping(own.get("target"))
    if percent := target.get("averageUtilization"):
        return f"{own.get('name', '')}: {UNKNOWN}/{percent}%"
    value = target.get("averageValue")
    return f"{UNKNOWN}/{value} (avg)" if value else f"{UNKNOWN}/{target.get('value', '')}"


@dataclass(frozen=True)
class Row:
    """Columns with priorities, and the function for the cells."""

    columns: tuple[tuple[str, int], ...]
    cells: Callable[[Object, datetime.datetime], list[Any]]
    is_named_last: bool = False
    """The name is the last column, and only in wide output."""
    integers: frozenset[str] = frozenset()
    """Columns that are not text."""


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
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    source = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    return [
        since(last, now) if last else UNKNOWN,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(filter(None, (source, (obj.get("source") or {}).get("host")))),
        str(obj.get("message", "")).strip(),
        since(first, now) if first else UNKNOWN,
        obj.get("count") or 1,
    ]


def _definition_row(obj: Object, now: datetime.datetime) -> list[Any]:
    return [obj["metadata"].get("creationTimestamp", UNKNOWN)]


def _lease(obj: Object, now: datetime.datetime) -> list[Any]:
    return [(obj.get("spec") or {}).get("holderIdentity") or "", age(obj, now)]


def _controller_revision(obj: Object, now: datetime.datetime) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or []
    owner = next((each for each in owners if each.get("controller")), None)
    shown = NONE
    if owner is not None:
        group, _, _ = owner["apiVersion"].rpartition("/")
        shown = f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return [shown, obj.get("revision", 0), age(obj, now)]


def _service_account(obj: Object, now: datetime.datetime) -> list[Any]:
    return [len(obj.get("secrets") or []), age(obj, now)]


def _columns(text: str) -> tuple[tuple[str, int], ...]:
    """Parse columns: comma-separated; those after the bar are only in wide output."""
    narrow, _, wide = text.partition("|")
    return tuple((n, p) for p, names in enumerate((narrow, wide)) for n in names.split(",") if n)


ROWS = {
    "pods": Row(_columns("Ready,Status,Restarts,Age|IP,Node,Nominated Node,Readiness Gates"), _pod_row),
    "deployments.apps": Row(
        _columns("Ready,Up-to-date,Available,Age|Containers,Images,Selector"), _deployment
    ),
    "replicasets.apps": Row(
        _columns("Desired,Current,Ready,Age|Containers,Images,Selector"),
        _replica_set,
        integers=frozenset({"Desired", "Current", "Ready"}),
    ),
    "statefulsets.apps": Row(_columns("Ready,Age|Containers,Images"), _stateful_set),
    "controllerrevisions.apps": Row(
        _columns("Controller,Revision,Age"), _controller_revision, integers=frozenset({"Revision"})
    ),
    "horizontalpodautoscalers.autoscaling": Row(
        _columns("Reference,Targets,MinPods,MaxPods,Replicas,Age"), _autoscaler
    ),
    "endpoints": Row(_columns("Endpoints,Age"), _endpoints),
    "endpointslices.discovery.k8s.io": Row(_columns("AddressType,Ports,Endpoints,Age"), _endpoint_slice),
    "serviceaccounts": Row(_columns("Secrets,Age"), _service_account),
    "services": Row(_columns("Type,Cluster-IP,External-IP,Port(s),Age|Selector"), _service),
    "namespaces": Row(_columns("Status,Age"), _namespace),
    "configmaps": Row(_columns("Data,Age"), _config_map),
    "secrets": Row(_columns("Type,Data,Age"), _secret),
    "nodes": Row(
        _columns(
            "Status,Roles,Age,Version|Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime"
        ),
        _node,
    ),
    "events": Row(
        (
            *_columns("Last Seen,Type,Reason,Object|Subobject,Source"),
            *_columns("Message|First Seen,Count"),
        ),
        _event,
        is_named_last=True,
    ),
    "leases.coordination.k8s.io": Row(_columns("Holder,Age"), _lease),
    "customresourcedefinitions.apiextensions.k8s.io": Row(_columns("Created At"), _definition_row),
}
