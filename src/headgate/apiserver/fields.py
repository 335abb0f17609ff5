"""Which fields a field selector may name: those of metadata, Kubernetes' own, and those of a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.apiserver.registry import Served


class Selectable(NamedTuple):
    """Where the value of a field is, and what it counts as where it is not set."""

    path: tuple[str, ...]
    absent: str = ""


class Fields(NamedTuple):
    """The fields of a kind by their labels, and the words for a label that is none of them."""

    by_label: Mapping[str, Selectable]
    unknown: str

    def refusal(self, label: str) -> str:
        return self.unknown.format(label=label)


_NOT_SUPPORTED = "field label not supported: {label}"
_NOT_KNOWN = '"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _paths(*labels: str, **absent: str) -> dict[str, Selectable]:
    return {
        label: Selectable(tuple(label.split(".")), absent.get(label.split(".")[-1], "")) for label in labels
    }


_EVENT = _paths(
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
) | {"source": Selectable(("source", "component"))}
_BUILTIN: dict[str, dict[str, Selectable]] = {
    "pods": _paths(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
        hostNetwork="false",
    ),
    "namespaces": _paths("status.phase"),
    "nodes": _paths("spec.unschedulable", unschedulable="false"),
    "secrets": _paths("type"),
    "services": _paths("spec.clusterIP", "spec.type", type="ClusterIP"),
    "replicasets.apps": _paths("status.replicas", replicas="0"),
    "events": _EVENT,
}


def of(served: Served) -> Fields:
    """The selectable fields of a kind."""
    common = _paths("metadata.name", "metadata.namespace") if served.namespaced else _paths("metadata.name")
    own = _BUILTIN.get(served.resource) if not served.custom else None
    if own is None:
        declared = {".".join(path): Selectable(path) for path in served.selectable_fields}
        return Fields(common | declared, _NOT_SUPPORTED if served.custom else _NOT_KNOWN)
    return Fields(common | own, _NOT_SUPPORTED)
