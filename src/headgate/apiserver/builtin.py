"""Behavior of built-in kinds that Kubernetes implements in code rather than in a schema."""

from __future__ import annotations

import base64
import copy
from typing import Any

from headgate.apiserver import errors

POD = "pods"
NAMESPACE = "namespaces"
SECRET = "secrets"  # noqa: S105 - the name of a resource
EVENT = "events"
SERVICE = "services"
ENDPOINT_SLICE = "endpointslices.discovery.k8s.io"
SERVICE_ACCOUNT = "serviceaccounts"
DEFINITION = "customresourcedefinitions.apiextensions.k8s.io"

NAMESPACE_FINALIZER = "kubernetes"
"""In a Namespace's spec.finalizers: its contents are not deleted yet."""
DEFINITION_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""On a CustomResourceDefinition: objects of the kind are not deleted yet."""

_SPEC, _TEMPLATE = ("f:spec",), ("f:spec", "f:template")
_POD_TEMPLATE = (
    _SPEC,
    _TEMPLATE,
    (*_TEMPLATE, "f:metadata"),
    (*_TEMPLATE, "f:spec"),
    (*_TEMPLATE, "f:spec", "f:containers"),
)
_STATUS = ("f:status",)
ALWAYS_PRESENT: dict[str, tuple[tuple[str, ...], ...]] = {
    POD: (_SPEC, ("f:spec", "f:containers"), _STATUS),
    NAMESPACE: (_SPEC, _STATUS),
    EVENT: (("f:source",),),
    SERVICE: (_SPEC, _STATUS, ("f:status", "f:loadBalancer")),
    "nodes": (_SPEC, _STATUS, ("f:status", "f:daemonEndpoints"), ("f:status", "f:nodeInfo")),
    "leases.coordination.k8s.io": (_SPEC,),
    "deployments.apps": (*_POD_TEMPLATE, ("f:spec", "f:strategy"), _STATUS),
    "replicasets.apps": (*_POD_TEMPLATE, _STATUS),
    "statefulsets.apps": (*_POD_TEMPLATE, ("f:spec", "f:updateStrategy"), _STATUS),
    "horizontalpodautoscalers.autoscaling": (_SPEC, ("f:spec", "f:scaleTargetRef"), _STATUS),
    "customresourcedefinitions.apiextensions.k8s.io": (
        _SPEC,
        ("f:spec", "f:names"),
        _STATUS,
        ("f:status", "f:acceptedNames"),
        ("f:status", "f:conditions"),
    ),
}
"""Maps and lists of each kind, as elements of fieldsV1, that Kubernetes' Go types always have."""

FIRST_NAMESPACES = ("default", "kube-system")
_DEFAULT_GRACE_S = 30
_FIRST_STATUS: dict[str, Any] = {
    POD: {"phase": "Pending"},
    NAMESPACE: {"phase": "Active"},
    SERVICE: {"loadBalancer": {}},
    "deployments.apps": {},
    "replicasets.apps": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
}
RETURNED_WHEN_DELETED = frozenset({POD, SERVICE, SERVICE_ACCOUNT})
"""Kinds of which a deletion returns the object."""
_PODS_AT = {POD: ("spec",)} | dict.fromkeys(
    ("deployments.apps", "replicasets.apps", "statefulsets.apps"), ("spec", "template", "spec")
)
"""Where kinds have the spec of a Pod."""
CREATED_BY_UPDATE = frozenset({SERVICE, EVENT, "endpoints", "leases.coordination.k8s.io"})
"""Kinds of which an update creates an object that does not exist."""
UPDATED_BY_VERSION = frozenset({"leases.coordination.k8s.io"})
"""Built-in kinds whose updates must name a resource version, as those of custom kinds."""


def initialize(resource: str, obj: dict[str, Any]) -> None:
    """Set the initial fields of a new object of a built-in kind."""
    if resource in _FIRST_STATUS:
        obj["status"] = copy.deepcopy(_FIRST_STATUS[resource])
    if resource == NAMESPACE:
        _set_namespace_finalizers(obj, [NAMESPACE_FINALIZER])
    elif resource == DEFINITION:
        obj["metadata"].setdefault("finalizers", []).append(DEFINITION_FINALIZER)


def normalize(resource: str, obj: dict[str, Any]) -> None:
    """Convert an object of a built-in kind to the form in which it is stored."""
    if resource == NAMESPACE:
        if name := obj["metadata"].get("name"):  # otherwise validation reports that it is missing
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    elif resource == DEFINITION:
        _complete_definition(obj.get("spec"))
    elif resource == SECRET and not obj.get("type"):
        obj["type"] = "Opaque"
    elif resource in _PODS_AT:
        _default_pull_policies(obj, _PODS_AT[resource])
    texts = obj.get("stringData") if resource == SECRET else None
    data = obj.get("data") or {}
    if not isinstance(texts, dict) or not isinstance(data, dict):
        return
    if all(isinstance(text, str) for text in texts.values()):  # otherwise validation reports the error
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**data, **encoded}
        del obj["stringData"]


def _complete_definition(spec: Any) -> None:
    """Add the names that follow from the kind. Malformed parts are left to validation."""
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(kind := names.get("kind"), str) and kind:
        names.update({"singular": names.get("singular") or kind.lower()})
        names.update({"listKind": names.get("listKind") or f"{kind}List"})
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def _default_pull_policies(obj: dict[str, Any], path: tuple[str, ...]) -> None:
    """Images without a tag, or with `latest`, are always pulled. Malformed parts are left to validation."""
    spec: Any = obj
    for name in path:
        spec = spec.get(name) if isinstance(spec, dict) else None
    for field in ("initContainers", "containers"):
        containers = spec.get(field) if isinstance(spec, dict) else None
        for container in containers if isinstance(containers, list) else ():
            image = container.get("image") if isinstance(container, dict) else None
            if isinstance(image, str) and image and not container.get("imagePullPolicy"):
                tag = image.rpartition("/")[2].partition(":")[2]
                is_latest = "@" not in image and tag in ("", "latest")
                container["imagePullPolicy"] = "Always" if is_latest else "IfNotPresent"


def keep(resource: str, old: dict[str, Any], new: dict[str, Any], subresource: str) -> None:
    """Restore in `new` what an update of a built-in kind may not change."""
    if resource != NAMESPACE:
        return
    kept = (old.get("spec") or {}).get("finalizers") or []
    if subresource == "finalize":  # finalize may change nothing else
        kept = _wanted_finalizers(new)
        new.clear()
        new |= copy.deepcopy(old)
    _set_namespace_finalizers(new, kept)


def _wanted_finalizers(namespace: dict[str, Any]) -> list[str]:
    spec = namespace.get("spec") or {}
    wanted = spec.get("finalizers") or [] if isinstance(spec, dict) else None
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise errors.bad_request("spec.finalizers must be a list of strings")
    return wanted


def _set_namespace_finalizers(namespace: dict[str, Any], finalizers: list[str]) -> None:
    spec = namespace.get("spec") or {}
    if not isinstance(spec, dict):  # reported by validation
        return
    spec = {name: value for name, value in spec.items() if name != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    namespace["spec"] = spec


def established(definition: dict[str, Any], now: str, before: dict[str, Any]) -> dict[str, Any]:
    """The status of an established definition; `before` is its previous status."""
    stored = [v["name"] for v in definition["spec"]["versions"] if v.get("storage")]
    stored = list(dict.fromkeys([*before.get("storedVersions", []), *stored]))
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    return {
        "conditions": before.get("conditions") or conditions,
        "acceptedNames": definition["spec"]["names"],
        "storedVersions": stored,
    }


def grace_period_s(resource: str, obj: dict[str, Any], asked_s: int | None) -> int:
    """Seconds that an object has to terminate. Only a Pod that runs on a node gets any."""
    if resource != POD:
        return 0
    if not obj.get("spec", {}).get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked_s is not None:
        return max(asked_s, 0)
    own = obj["spec"].get("terminationGracePeriodSeconds")
    return own if isinstance(own, int) and own >= 0 else _DEFAULT_GRACE_S
