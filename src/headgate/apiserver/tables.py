"""What `kubectl get` prints: lists and events as meta/v1 Tables, made from printer columns.

Where Kubernetes prints of its own kinds what no JSONPath can say, `_BUILTIN` has a function for the row.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from headgate.api import timestamps
from headgate.apiserver.registry import Column, Served

Object = dict[str, Any]
IncludeObject = Literal["None", "Metadata", "Object"]

_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique among its kind in a namespace.",
}
UNKNOWN = "<unknown>"
NONE = "<none>"


@dataclass(frozen=True)
class _Builtin:
    """Headings with priorities, and the cells under them."""

    columns: tuple[tuple[str, int], ...]
    cells: Callable[[Object, datetime.datetime], list[Any]]
    name_priority: int = 0


def table(
    served: Served,
    objects: Iterable[Object],
    *,
    metadata: Object,
    include: IncludeObject,
    now: datetime.datetime,
    with_columns: bool = True,
) -> Object:
    """A Table of objects; `metadata` is that of the list. Events after the first leave the columns out."""
    builtin = _BUILTIN.get(served.resource) if not served.custom else None
    rows = []
    for obj in objects:
        cells = builtin.cells(obj, now) if builtin else _cells(served.columns, obj, now)
        rows.append({"cells": [obj["metadata"]["name"], *cells], "object": _row_object(obj, include)})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": _definitions(served, builtin) if with_columns else None,
        "rows": rows,
    }


def scale_table(scale: Object, *, include: IncludeObject, now: datetime.datetime) -> Object:
    """The Table of an autoscaling/v1 Scale, the same for all kinds that have one."""
    meta = scale["metadata"]
    cells = [meta["name"], scale["spec"]["replicas"], scale["status"]["replicas"], _age(scale, now)]
    columns = [
        {**_NAME, "priority": 0},
        _definition("Desired", "integer", 0, description="Number of desired replicas"),
        _definition("Available", "integer", 0, description="Number of actual replicas"),
        _definition("Age", "date", 0),
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": meta["resourceVersion"]},
        "columnDefinitions": columns,
        "rows": [{"cells": cells, "object": _row_object(scale, include)}],
    }


def _definitions(served: Served, builtin: _Builtin | None) -> list[Object]:
    if builtin:
        shown = [_definition(name, "string", priority) for name, priority in builtin.columns]
    elif served.columns:
        shown = [_definition(c.name, c.type, c.priority, c.format, c.description) for c in served.columns]
    else:
        shown = [_definition("Age", "date", 0)]
    return [{**_NAME, "priority": builtin.name_priority if builtin else 0}, *shown]


def _definition(name: str, type_: str, priority: int, format_: str = "", description: str = "") -> Object:
    return {
        "name": name,
        "type": type_,
        "format": format_,
        "description": description or name,
        "priority": priority,
    }


def _row_object(obj: Object, include: IncludeObject) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"},
    }


# -- cells from printer columns


def _cells(columns: tuple[Column, ...], obj: Object, now: datetime.datetime) -> list[Any]:
    if not columns:
        return [_age(obj, now)]
    return [_cell(column, column.path.find(obj), now) for column in columns]


def _cell(column: Column, found: list[Any], now: datetime.datetime) -> Any:
    """The first value that the path finds; None, which kubectl leaves blank, if it is not of the type."""
    if not found or found[0] is None:
        return None
    value = found[0]
    match column.type:
        case "string":
            return _text(value)
        case "date":
            return since(value, now)
        case "integer" if isinstance(value, int | float):
            return int(value)
        case "number" if isinstance(value, int | float):
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# -- times


def since(timestamp: Any, now: datetime.datetime) -> str:
    """How long ago an RFC 3339 time was, as kubectl prints an age."""
    try:
        return human_duration(int(now.timestamp() - timestamps.parse(str(timestamp))))
    except ValueError:
        return UNKNOWN


def human_duration(seconds: int) -> str:
    """A duration as kubectl shows it: 90s, 5m30s, 47h, 3d4h, 2y11d (apimachinery's HumanDuration)."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _age(obj: Object, now: datetime.datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


# -- Kubernetes' own kinds


def _pod(pod: Object, now: datetime.datetime) -> list[Any]:
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
        _age(pod, now),
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
        shown = "Running" if _condition(status, "Ready") == "True" else "NotReady"
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


def _condition(status: Object, type_: str) -> str:
    found = (c.get("status", "") for c in status.get("conditions") or [] if c.get("type") == type_)
    return next(found, "")


def _deployment(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_template(spec),
    ]


def _replica_set(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now),
        *_template(spec),
    ]


def _template(spec: Object) -> list[str]:
    pod = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        ",".join(str(c.get("name", "")) for c in pod),
        ",".join(str(c.get("image", "")) for c in pod),
        ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE,
    ]


def _service(obj: Object, now: datetime.datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or [])
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or []) or NONE,
        ports or NONE,
        _age(obj, now),
        selector or NONE,
    ]


def _namespace(obj: Object, now: datetime.datetime) -> list[Any]:
    return [(obj.get("status") or {}).get("phase", ""), _age(obj, now)]


def _config_map(obj: Object, now: datetime.datetime) -> list[Any]:
    return [len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), _age(obj, now)]


def _secret(obj: Object, now: datetime.datetime) -> list[Any]:
    return [obj.get("type", "Opaque"), len(obj.get("data") or {}), _age(obj, now)]


def _node(obj: Object, now: datetime.datetime) -> list[Any]:
    status = obj.get("status") or {}
    shown = {"True": "Ready", "False": "NotReady"}.get(_condition(status, "Ready"), "Unknown")
    if (obj.get("spec") or {}).get("unschedulable"):
        shown += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))
    info = status.get("nodeInfo") or {}
    address = next(
        (a["address"] for a in status.get("addresses") or [] if a.get("type") == "InternalIP"), NONE
    )
    return [shown, roles or NONE, _age(obj, now), info.get("kubeletVersion", ""), address]


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


def _stateful_set(obj: Object, now: datetime.datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [ready, _age(obj, now), *_template(spec)[:2]]


def _horizontal(obj: Object, now: datetime.datetime) -> list[Any]:
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
        _age(obj, now),
    ]


def _metric(metric: Object) -> str:
    """A metric with its target; what it is now, nobody has measured here."""
    own = _mapping(metric.get(str(metric.get("type", "")).lower()))
    target = _mapping(own.get("target"))
    if percent := target.get("averageUtilization"):
        return f"{own.get('name', '')}: {UNKNOWN}/{percent}%"
    value = target.get("averageValue")
    return f"{UNKNOWN}/{value} (avg)" if value else f"{UNKNOWN}/{target.get('value', '')}"


def _endpoint_slice(obj: Object, now: datetime.datetime) -> list[Any]:
    ports = ",".join(str(p.get("port", "*")) for p in obj.get("ports") or []) or "<unset>"
    found = [a for endpoint in obj.get("endpoints") or [] for a in endpoint.get("addresses") or []]
    return [obj.get("addressType", ""), ports, _some(found), _age(obj, now)]


def _endpoints(obj: Object, now: datetime.datetime) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        ports = [f":{port.get('port')}" for port in _mappings(subset.get("ports"))] or [""]
        found += [f"{a.get('ip')}{port}" for port in ports for a in _mappings(subset.get("addresses"))]
    return [_some(found), _age(obj, now)]


def _mapping(value: Any) -> Object:
    """What no schema says the shape of, if it has the right one."""
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _some(names: list[str]) -> str:
    """Up to three, and how many more there are."""
    shown = ",".join(names[:3])
    return f"{shown} + {len(names) - 3} more..." if len(names) > 3 else shown or NONE


def _service_account(obj: Object, now: datetime.datetime) -> list[Any]:
    return [len(obj.get("secrets") or []), _age(obj, now)]


def _columns(text: str) -> tuple[tuple[str, int], ...]:
    """Headings as text: comma-separated, those behind the bar only in wide output."""
    narrow, _, wide = text.partition("|")
    return tuple((n, p) for p, names in enumerate((narrow, wide)) for n in names.split(",") if n)


_BUILTIN = {
    "pods": _Builtin(_columns("Ready,Status,Restarts,Age|IP,Node,Nominated Node,Readiness Gates"), _pod),
    "deployments.apps": _Builtin(
        _columns("Ready,Up-to-date,Available,Age|Containers,Images,Selector"), _deployment
    ),
    "replicasets.apps": _Builtin(
        _columns("Desired,Current,Ready,Age|Containers,Images,Selector"), _replica_set
    ),
    "statefulsets.apps": _Builtin(_columns("Ready,Age|Containers,Images"), _stateful_set),
    "horizontalpodautoscalers.autoscaling": _Builtin(
        _columns("Reference,Targets,MinPods,MaxPods,Replicas,Age"), _horizontal
    ),
    "endpoints": _Builtin(_columns("Endpoints,Age"), _endpoints),
    "endpointslices.discovery.k8s.io": _Builtin(_columns("AddressType,Ports,Endpoints,Age"), _endpoint_slice),
    "serviceaccounts": _Builtin(_columns("Secrets,Age"), _service_account),
    "services": _Builtin(_columns("Type,Cluster-IP,External-IP,Port(s),Age|Selector"), _service),
    "namespaces": _Builtin(_columns("Status,Age"), _namespace),
    "configmaps": _Builtin(_columns("Data,Age"), _config_map),
    "secrets": _Builtin(_columns("Type,Data,Age"), _secret),
    "nodes": _Builtin(_columns("Status,Roles,Age,Version|Internal-IP"), _node),
    "events": _Builtin(_columns("Last Seen,Type,Reason,Object,Message|Source,Count"), _event, 1),
    "customresourcedefinitions.apiextensions.k8s.io": _Builtin(_columns("Created At"), _definition_row),
}
