"""The stable dialect of the Gateway API Inference Extension: InferencePool, as current clusters have it.

It is a separate kind from the InferencePool of v1alpha1, in another API group; `pool_conversion` translates
between the two.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from headgate.api.meta import (
    BY_TYPE,
    CONTROLLER_NAME,
    KIND,
    LABEL_KEYS,
    LABEL_VALUE,
    NAMESPACE,
    OBJECT_NAME,
    Condition,
    ObjectMeta,
    Part,
    Resource,
    described,
)
from headgate.api.meta import GROUP as GROUP_NAME

GROUP, VERSION = "inference.networking.k8s.io", "v1"

_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_UNIQUE_PORTS = {
    "x-kubernetes-validations": [
        {
            "rule": "self.all(p1, self.exists_one(p2, p1.number == p2.number))",
            "message": "port number must be unique",
        }
    ]
}


class LabelSelector(Part, frozen=True, kw_only=True):
    match_labels: Annotated[
        dict[str, Annotated[str, described("The value that a Pod's label must have.", **LABEL_VALUE)]],
        Meta(min_length=1, max_length=64),
        described("Labels that every Pod of the pool has.", **LABEL_KEYS),
    ]


class Port(Part, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1, le=65535), described("Number of the port.", format="int32")]


class EndpointPickerRef(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        {
            "rule": "self.kind != 'Service' || has(self.port)",
            "message": "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
        }
    ]

    group: Annotated[
        str, described("API group of the picker; empty: the core group.", default="", **GROUP_NAME)
    ] = ""
    kind: Annotated[
        str, described("Kind of the picker. A Service must not be of type ExternalName.", **KIND)
    ] = "Service"
    name: Annotated[str, described("Name of the picker.", **OBJECT_NAME)]
    port: Annotated[Port | None, described("Port of the picker; a Service must have one.")] = None
    failure_mode: Annotated[
        Literal["FailOpen", "FailClose"],
        described("While the picker is down: send requests to any endpoint, or refuse them."),
    ] = "FailClose"


class InferencePoolSpec(Part, frozen=True, kw_only=True):
    selector: Annotated[LabelSelector, described("Which Pods of the namespace are endpoints of the pool.")]
    target_ports: Annotated[
        list[Port],
        Meta(min_length=1, max_length=8),
        described(
            "Ports that the model servers listen on; each port of a Pod is an endpoint.",
            **_ATOMIC,
            **_UNIQUE_PORTS,
        ),
    ]
    app_protocol: Annotated[
        Literal["http", "kubernetes.io/h2c"],
        described("What the ports speak: HTTP/1.1, or HTTP/2 without TLS."),
    ] = "http"
    endpoint_picker_ref: Annotated[
        EndpointPickerRef | None,
        described("Who picks endpoints for requests by HTTPRoutes; for its own API, Headgate picks itself."),
    ] = None


class ParentReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the parent.", **GROUP_NAME)] = "gateway.networking.k8s.io"
    kind: Annotated[str, described("Kind of the parent.", **KIND)] = "Gateway"
    name: Annotated[str, described("Name of the parent.", **OBJECT_NAME)]
    namespace: Annotated[
        str | None, described("Namespace of the parent. Unset: that of the pool.", **NAMESPACE)
    ] = None


class ParentStatus(Part, frozen=True, kw_only=True):
    parent_ref: Annotated[ParentReference, described("Who routes to the pool, a Gateway for instance.")]
    controller_name: Annotated[
        str | None, described("The controller that wrote this, domain/path.", **CONTROLLER_NAME)
    ] = None
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described("What this parent found out about the pool: Accepted, ResolvedRefs, Exported.", **BY_TYPE),
    ] = []


class InferencePoolStatus(Part, frozen=True, kw_only=True):
    parents: Annotated[
        list[ParentStatus],
        Meta(max_length=32),
        described("One entry for each parent of the pool.", **_ATOMIC),
    ] = []


class InferencePool(Part, frozen=True, kw_only=True):
    """InferencePool is a set of Pods that serve one base model, on one port or several."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "InferencePool", "inferencepools")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[InferencePoolSpec, described("Which Pods, on which ports, and who picks.")]
    status: Annotated[InferencePoolStatus | None, described("What is observed.")] = None
