"""Backends of HTTPRoute rules: pools, Services, and references that lead nowhere."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, http_routes, kthena_networking, reference_grants
from headgate.api.reference_grants import End, Reference, ReferenceGrant
from headgate.routing.gateway_api import faults
from headgate.routing.gateway_api.faults import Fault
from headgate.routing.snapshot import INFERENCE_POOL, INFERENCE_POOL_V1ALPHA1, MODEL_SERVER

_POOLS: Final = {
    (gie_v1.GROUP, "InferencePool"): INFERENCE_POOL,
    (gie_v1alpha1.GROUP, "InferencePool"): INFERENCE_POOL_V1ALPHA1,
    (kthena_networking.GROUP, "ModelServer"): MODEL_SERVER,
}
"""Kinds whose objects are pools, by group and kind."""
H2C: Final = "kubernetes.io/h2c"
_HTTP1: Final = frozenset({None, "", "http", "kubernetes.io/ws"})
"""Protocols of Service ports that HTTP/1.1 serves; upgrades to WebSocket are always forwarded."""


class ServicePort(NamedTuple):
    """One port of a Service."""

    namespace: str
    name: str
    port: int

    @property
    def service(self) -> api.ObjectKey:
        return api.ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        return f"Service/{self.namespace}/{self.name}:{self.port}"


class InvalidBackend(msgspec.Struct, frozen=True):
    """A reference that leads nowhere; requests get status 500."""

    fault: Fault


Backend: TypeAlias = api.ObjectRef | ServicePort | InvalidBackend
"""A pool by its object, a port of a Service, or a reference that cannot be followed."""


class Known(NamedTuple):
    """The objects that backends may be."""

    pools: Container[api.ObjectRef]
    """Those that exist."""
    services: Mapping[api.ObjectKey, api.Service]
    grants: Collection[ReferenceGrant]


def resolve(route: api.HttpRoute, reference: http_routes.BackendReference, known: Known) -> Backend:
    """The backend that a reference of a route leads to."""
    metadata = route.metadata
    key = api.ObjectKey(reference.namespace or metadata.namespace, reference.name)
    kind = _POOLS.get((reference.group, reference.kind))
    if kind is None and (reference.group, reference.kind) != ("", "Service"):
        told = f"{reference.kind} of group {reference.group!r} is not supported: use Service or InferencePool"
        return _invalid(faults.INVALID_KIND, told)
    source = End(reference_grants.GROUP, route.resource.kind, metadata.namespace, metadata.name)
    crossing = Reference(source, End(reference.group, reference.kind, key.namespace, key.name))
    if not crossing.is_allowed(known.grants):
        return _invalid(faults.REF_NOT_PERMITTED, crossing.refusal())
    if kind is not None:
        pool = api.ObjectRef(kind, *key)
        if pool not in known.pools:
            return _invalid(faults.BACKEND_NOT_FOUND, f"there is no {reference.kind} {key}")
        return pool
    return _service(key, reference.port, known.services.get(key))


def _service(key: api.ObjectKey, port: int | None, service: api.Service | None) -> Backend:
    if service is None:
        return _invalid(faults.BACKEND_NOT_FOUND, f"there is no Service {key}, or it may not be read")
    if port is None:
        return _invalid(faults.BACKEND_NOT_FOUND, f"the reference to Service {key} has no port")
    if service.spec.get("type") == "ExternalName":
        told = f"Service {key} is of type ExternalName, which could lead anywhere"
        return _invalid(faults.BACKEND_NOT_FOUND, told)
    found = port_of(service, port)
    if found is None:
        have = ", ".join(str(each.get("port")) for each in ports_of(service)) or "none"
        return _invalid(faults.BACKEND_NOT_FOUND, f"Service {key} has no port {port} (it has: {have})")
    protocol = found.get("appProtocol")
    if protocol not in _HTTP1 and protocol != H2C:
        told = (
            f"port {port} of Service {key} has appProtocol {protocol!r}: use http, {H2C} or kubernetes.io/ws"
        )
        return _invalid(faults.UNSUPPORTED_PROTOCOL, told)
    return ServicePort(*key, port)


def _invalid(reason: str, message: str) -> InvalidBackend:
    return InvalidBackend(Fault(faults.RESOLVED_REFS, reason, message))


def ports_of(service: api.Service) -> list[dict[str, Any]]:
    """The ports in a Service's spec."""
    found = service.spec.get("ports")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def port_of(service: api.Service, number: int) -> dict[str, Any] | None:
    """The port with this number."""
    return next((each for each in ports_of(service) if each.get("port") == number), None)


def used(
    route: api.HttpRoute, reference: http_routes.BackendReference
) -> api.ObjectKey | api.ObjectRef | None:
    """The Service or pool that a reference names, whether or not it may; None if it names something else."""
    kind = _POOLS.get((reference.group, reference.kind))
    if kind is not None:
        return api.ObjectRef(kind, reference.namespace or route.metadata.namespace, reference.name)
    return service_of(route, reference)


def service_of(route: api.HttpRoute, reference: http_routes.BackendReference) -> api.ObjectKey | None:
    """The Service that a reference names, whether or not it may; None if it names something else."""
    if (reference.group, reference.kind) != ("", "Service"):
        return None
    return api.ObjectKey(reference.namespace or route.metadata.namespace, reference.name)
