"""Endpoints and EndpointSlice: the addresses behind a Service."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from headgate.api.core import ObjectReference
from headgate.api.meta import ObjectMeta, Part, Resource, described


class EndpointsPort(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the port.")] = ""
    port: Annotated[int | None, described("Number of the port.", format="int32")] = None
    protocol: Annotated[str, described("TCP, UDP or SCTP.")] = "TCP"
    app_protocol: Annotated[str | None, described("What is spoken there.")] = None


class Endpoints(Part, frozen=True, kw_only=True):
    """Endpoints is the list of addresses behind a Service; EndpointSlice is its successor."""

    resource: ClassVar[Resource] = Resource("", "v1", "Endpoints", "endpoints")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    subsets: Annotated[list[dict[str, Any]], described("Addresses that have the same ports.")] = []


class EndpointConditions(Part, frozen=True, kw_only=True):
    ready: Annotated[bool | None, described("Whether it may get traffic.")] = None
    serving: Annotated[bool | None, described("Whether it answers, even while it ends.")] = None
    terminating: Annotated[bool | None, described("Whether it is about to end.")] = None


class Endpoint(Part, frozen=True, kw_only=True):
    addresses: Annotated[list[str], described("Addresses of the endpoint.")]
    conditions: Annotated[EndpointConditions, described("How it stands.")] = EndpointConditions()
    hostname: Annotated[str | None, described("Name of the endpoint.")] = None
    target_ref: Annotated[ObjectReference | None, described("The object behind it.")] = None
    node_name: Annotated[str | None, described("Node that it is on.")] = None
    zone: Annotated[str | None, described("Zone that it is in.")] = None


class EndpointSlice(Part, frozen=True, kw_only=True):
    """EndpointSlice is a part of the addresses behind a Service."""

    resource: ClassVar[Resource] = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    address_type: Annotated[Literal["IPv4", "IPv6", "FQDN"], described("What the addresses are.")]
    endpoints: Annotated[list[Endpoint], described("The endpoints.")]
    ports: Annotated[list[EndpointsPort], described("Ports that all of them have.")] = []
