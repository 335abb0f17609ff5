"""What the status of an InferencePool says, for each Gateway whose routes lead to it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate import api
from headgate.api import gie_v1
from headgate.controllers.conditions import Finding
from headgate.controllers.findings import ACCEPTED, RESOLVED_REFS
from headgate.controllers.gateway_api.forming import OfPool
from headgate.routing.gateway_api.backends import port_of

INVALID_EXTENSION_REF, ROUTE_NOT_ACCEPTED = "InvalidExtensionRef", "HTTPRouteNotAccepted"


def of_pool(
    pool: gie_v1.InferencePool,
    parents: Mapping[api.ObjectKey, bool],
    services: Mapping[api.ObjectKey, api.Service],
) -> OfPool:
    """`parents`: the Gateways whose routes name the pool, and whether one of these routes is accepted."""
    resolved = _resolved(pool, services)
    return OfPool(
        [
            (
                gie_v1.ParentReference(name=gateway.name, namespace=gateway.namespace),
                [_accepted(gateway, is_accepted), resolved],
            )
            for gateway, is_accepted in sorted(parents.items())
        ]
    )


def _accepted(gateway: api.ObjectKey, is_accepted: bool) -> Finding:
    if is_accepted:
        return Finding(ACCEPTED, True, "Accepted", f"A route of Gateway {gateway} leads to the pool")
    why = f"Gateway {gateway} accepts none of the routes that name the pool, see their status"
    return Finding(ACCEPTED, False, ROUTE_NOT_ACCEPTED, why)


def _resolved(pool: gie_v1.InferencePool, services: Mapping[api.ObjectKey, api.Service]) -> Finding:
    reference = pool.spec.endpoint_picker_ref
    if reference is None:
        why = "No picker is named: Headgate's gateway picks endpoints itself"
        return Finding(RESOLVED_REFS, True, "ResolvedRefs", why)
    if wrong := _wrong(pool, reference, services):
        does = "refuses requests" if reference.failure_mode == "FailClose" else "uses any endpoint"
        why = f"spec.endpointPickerRef: {wrong}. The gateway {does}"
        return Finding(RESOLVED_REFS, False, INVALID_EXTENSION_REF, why)
    return Finding(RESOLVED_REFS, True, "ResolvedRefs", "The gateway asks the picker for endpoints")


def _wrong(
    pool: gie_v1.InferencePool,
    reference: gie_v1.EndpointPickerRef,
    services: Mapping[api.ObjectKey, api.Service],
) -> str:
    """What is wrong with a reference to a picker; empty if nothing is."""
    key = api.ObjectKey(pool.metadata.namespace, reference.name)
    if reference.group or reference.kind != "Service":
        return f"{reference.kind} of group {reference.group or 'core'} is not supported: name a Service"
    service = services.get(key)
    if service is None:
        return f"there is no Service {key}, or it may not be read"
    if service.spec.get("type") == "ExternalName":
        return f"Service {key} is of type ExternalName, which cannot be a picker"
    if reference.port is not None and port_of(service, reference.port.number) is None:
        return f"Service {key} has no port {reference.port.number}"
    return ""
