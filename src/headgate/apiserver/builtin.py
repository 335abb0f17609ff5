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
SERVICE_ACCOUNT = "serviceaccounts"
DEFINITION = "customresourcedefinitions.apiextensions.k8s.io"

NAMESPACE_FINALIZER = "kubernetes"
"""In a Namespace's spec.finalizers: its contents are not deleted yet."""
DEFINITION_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""On a CustomResourceDefinition: objects of the kind are not deleted yet."""

_SPEC, _TEMPLATE = ("f:spec",), ("f:spec", "f:template")
_POD_TEMPLATE = (
    _SPEC,
    ("f:spec", "f:selector"),
    _TEMPLATE,
    (*_TEMPLATE, "f:metadata"),
    (*_TEMPLATE, "f:spec"),
    (*_TEMPLATE, "f:spec", "f:containers"),
)
_STATUS = ("f:status",)
ALWAYS_PRESENT: dict[str, tuple[tuple[str, ...], ...]] = {
    POD: (_SPEC, ("f:spec", "f:containers"), _STATUS),
    NAMESPACE: (_SPEC, _STATUS),
    EVENT: (("f:involvedObject",), ("f:source",)),
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
        ("f:spec", "f:versions"),
        _STATUS,
        ("f:status", "f:acceptedNames"),
        ("f:status", "f:conditions"),
        ("f:status", "f:storedVersions"),
    ),
}
"""Maps and lists of each kind, as elements of fieldsV1, that Kubernetes' Go types always have."""

FIRST_NAMESPACES = ("default", "kube-system")
_DEFAULT_GRACE_S = 30


def initialize(resource: str, obj: dict[str, Any]) -> None:
    """Set the initial fields of a new object of a built-in kind."""
    if resource == POD:
        obj["status"] = {"phase": "Pending"}
    elif resource == NAMESPACE:
        obj["status"] = {"phase": "Active"}
        _set_namespace_finalizers(obj, [NAMESPACE_FINALIZER])
        if name := obj["metadata"].get("name"):  # otherwise validation reports that it is missing
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    elif resource == DEFINITION:
        obj["metadata"].setdefault("finalizers", []).append(DEFINITION_FINALIZER)
    elif resource == SECRET:
        obj.setdefault("type", "Opaque")


def normalize(resource: str, obj: dict[str, Any]) -> None:
    """Convert an object of a built-in kind to the form in which it is stored."""
    texts = obj.get("stringData") if resource == SECRET else None
    data = obj.get("data") or {}
    if not isinstance(texts, dict) or not isinstance(data, dict):
        return
    if all(isinstance(text, str) for text in texts.values()):  # otherwise validation reports the error
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**data, **encoded}
        del obj["stringData"]


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
