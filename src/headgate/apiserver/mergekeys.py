"""How lists of built-in kinds merge: by which keys, in a strategic merge patch and in server-side apply.

The schemas of these kinds name only what Headgate uses of them; everything else is kept as it is sent. A
list that is not named would be replaced whole, and `kubectl apply` sends only the items that changed.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def _fields(**properties: Schema) -> Schema:
    return {"properties": properties}


def _list(*keys: str, items: Schema | None = None, strategy: str = "merge") -> Schema:
    """A list of objects. Apply goes by all keys, a strategic merge patch by the first."""
    return {
        "items": items or {},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "x-kubernetes-patch-merge-key": keys[0],
        "x-kubernetes-patch-strategy": strategy,
    }


_OVER_TCP = _fields(protocol={"default": "TCP"})
_CONTAINER = _fields(
    env=_list("name"),
    ports=_list("containerPort", "protocol", items=_OVER_TCP),
    volumeDevices=_list("devicePath"),
    volumeMounts=_list("mountPath"),
)
_POD = _fields(
    containers=_list("name", items=_CONTAINER),
    ephemeralContainers=_list("name", items=_CONTAINER),
    hostAliases=_list("ip"),
    imagePullSecrets=_list("name"),
    initContainers=_list("name", items=_CONTAINER),
    resourceClaims=_list("name", strategy="merge,retainKeys"),
    schedulingGates=_list("name"),
    topologySpreadConstraints=_list("topologyKey", "whenUnsatisfiable"),
    volumes=_list("name", strategy="merge,retainKeys"),
)
_POD_STATUS = _fields(conditions=_list("type"), podIPs=_list("ip"), hostIPs=_list("ip"))
_CONDITIONS = _fields(conditions=_list("type"))
_WORKLOAD = _fields(spec=_fields(template=_fields(spec=_POD)), status=_CONDITIONS)
_SERVICE = _fields(
    spec=_fields(ports=_list("port", "protocol", items=_OVER_TCP)),
    status=_CONDITIONS,
)

_BY_RESOURCE = {
    "pods": _fields(spec=_POD, status=_POD_STATUS),
    "deployments.apps": _WORKLOAD,
    "replicasets.apps": _WORKLOAD,
    "statefulsets.apps": _WORKLOAD,
    "services": _SERVICE,
    "serviceaccounts": _fields(secrets=_list("name")),
    "nodes": _fields(status=_fields(conditions=_list("type"), addresses=_list("type"))),
    "namespaces": _fields(status=_CONDITIONS),
    "horizontalpodautoscalers.autoscaling": _fields(status=_CONDITIONS),
}


def extended(resource: str, schema: Schema) -> Schema:
    """The schema of a built-in kind with the merge keys of its lists."""
    extra = _BY_RESOURCE.get(resource)
    return _merged(schema, extra) if extra else schema


def _merged(schema: Any, extra: Any) -> Any:
    if not isinstance(schema, dict) or not isinstance(extra, dict):
        return extra
    return schema | {name: _merged(schema.get(name), value) for name, value in extra.items()}
