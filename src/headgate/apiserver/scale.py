"""The scale subresource: one format (autoscaling/v1 Scale) for kinds that store replicas differently."""

from __future__ import annotations

import copy
from typing import Any

from headgate.apiserver import errors
from headgate.apiserver.registry import Scale
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]

GROUP, VERSION, KIND = "autoscaling", "v1", "Scale"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Scale represents a scaling request for a resource.",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {"replicas": {"type": "integer", "description": "Desired number of instances."}},
        },
        "status": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "description": "Actual number of instances."},
                "selector": {"type": "string", "description": "Label selector of the counted Pods."},
            },
        },
    },
}
_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def of(obj: Object, paths: Scale) -> Object:
    """The Scale of an object. As in Kubernetes, a desired number of 0 is left out; an actual one is not."""
    desired = _at(obj, paths.spec_replicas)
    status: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    if selector := _selector_text(_at(obj, paths.selector)):
        status["selector"] = selector
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {name: obj["metadata"][name] for name in _META if name in obj["metadata"]},
        "spec": {"replicas": desired} if desired else {},
        "status": status,
    }


def apply(obj: Object, paths: Scale, wanted: Object) -> Object:
    """A copy of the object with the replicas requested by a Scale."""
    spec = wanted.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas < 2**31:
        detail = "must be greater than or equal to 0"
        error = FieldError("FieldValueInvalid", "spec.replicas", detail, replicas)
        raise errors.invalid(GROUP, KIND, obj["metadata"]["name"], [error])
    new = copy.deepcopy(obj)
    parent = new
    for name in paths.spec_replicas[:-1]:
        parent = parent.setdefault(name, {})
    parent[paths.spec_replicas[-1]] = replicas
    return new


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if path else None


def _selector_text(selector: Any) -> str:
    """A selector as text; built-in kinds store it as an object, custom kinds as text."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or []:
        key, values = requirement.get("key", ""), ",".join(requirement.get("values") or [])
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }.get(requirement.get("operator", ""), key)
        )
    return ",".join(parts)
