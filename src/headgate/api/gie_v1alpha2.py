"""The later experimental dialect of the Gateway API Inference Extension: InferenceObjective.

An InferenceObjective gives a priority to the requests that name it; flow control serves higher ones first.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from headgate.api.meta import BY_TYPE, KIND, OBJECT_NAME, Condition, ObjectMeta, Part, Resource, described
from headgate.api.meta import GROUP as GROUP_NAME

GROUP, VERSION = "inference.networking.x-k8s.io", "v1alpha2"

_UNTOUCHED = [
    {
        "type": "Ready",
        "status": "Unknown",
        "reason": "Pending",
        "message": "Waiting for controller",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
]


class PoolObjectReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the pool.", **GROUP_NAME)] = "inference.networking.k8s.io"
    kind: Annotated[str, described("Kind of the pool.", **KIND)] = "InferencePool"
    name: Annotated[str, described("Name of the pool.", **OBJECT_NAME)]


class InferenceObjectiveSpec(Part, frozen=True, kw_only=True):
    priority: Annotated[
        int | None,
        described("Requests with a higher number are served first; below 0 they may be shed. Unset: 0."),
    ] = None
    pool_ref: Annotated[PoolObjectReference, described("The pool it is about, in the same namespace.")]


class InferenceObjectiveStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described("What was found out about the objective, one per type.", default=_UNTOUCHED, **BY_TYPE),
    ] = []


class InferenceObjective(Part, frozen=True, kw_only=True):
    """InferenceObjective gives a priority to the requests that name it."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferenceObjective", "inferenceobjectives")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferenceObjectiveSpec, described("How important, and in which pool.")]
    status: Annotated[InferenceObjectiveStatus | None, described("What is observed.")] = None
