"""Statuses of the Gateway API's kinds, formed of findings and of what the status says already.

`lastTransitionTime` changes only with the status of a condition, conditions and parents of other controllers
are kept, and equal findings make an equal status, so that nothing is written unless something has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from headgate import api
from headgate.api import gie_v1
from headgate.api.gateways import (
    Gateway,
    GatewayAddress,
    GatewayClass,
    GatewayClassStatus,
    GatewayStatus,
    ListenerStatus,
    RouteGroupKind,
    SupportedFeature,
)
from headgate.api.http_routes import HttpRoute, HttpRouteStatus, ParentReference, RouteParentStatus
from headgate.controllers.conditions import MAX_MESSAGE, Finding

MAX_PARENTS = 32
"""How many entries a status may have."""


class OfClass(NamedTuple):
    conditions: Sequence[Finding]
    features: Sequence[str]


class OfListener(NamedTuple):
    name: str
    kinds: Sequence[RouteGroupKind]
    attached: int
    conditions: Sequence[Finding]


class OfGateway(NamedTuple):
    conditions: Sequence[Finding]
    addresses: Sequence[GatewayAddress]
    listeners: Sequence[OfListener]


class OfRoute(NamedTuple):
    """What is found out for each parent, in the order of the route."""

    parents: Sequence[tuple[ParentReference, Sequence[Finding]]]


class OfPool(NamedTuple):
    """What is found out for each Gateway that leads to the pool."""

    parents: Sequence[tuple[gie_v1.ParentReference, Sequence[Finding]]]


Subject = GatewayClass | Gateway | HttpRoute | gie_v1.InferencePool
Findings = OfClass | OfGateway | OfRoute | OfPool
Status = GatewayClassStatus | GatewayStatus | HttpRouteStatus | gie_v1.InferencePoolStatus


def formed(obj: Subject, found: Findings, controller: str, now: str) -> Status:
    """The complete status of an object. `controller` is our name; `now` is RFC 3339."""
    match obj, found:
        case GatewayClass(), OfClass():
            before = obj.status.conditions if obj.status is not None else []
            features = [SupportedFeature(name=name) for name in sorted(found.features)]
            conditions = _conditions(found.conditions, before, obj, now)
            return GatewayClassStatus(conditions=conditions, supported_features=features)
        case Gateway(), OfGateway():
            return _of_gateway(obj, found, now)
        case HttpRoute(), OfRoute():
            return _of_route(obj, found, controller, now)
        case gie_v1.InferencePool(), OfPool():
            return _of_pool(obj, found, controller, now)
    raise TypeError(f"{type(found).__name__} is nothing about a {type(obj).__name__}")


def is_current(obj: Subject, status: Status) -> bool:
    """Whether the object has this status already; one without a status has nothing to say."""
    return obj.status == status if obj.status is not None else not any(msgspec.structs.astuple(status))


def plain(status: Status) -> dict[str, Any]:
    """The same for an API server, which requires some fields even if they are empty. A field that is left out
    of a patch would stay as it is."""
    written: dict[str, Any] = msgspec.to_builtins(status)
    for name in _LISTS[type(status)]:
        written.setdefault(name, [])
    for listener in written.get("listeners", ()):
        listener.setdefault("supportedKinds", [])
    for part in (written, *written.get("listeners", ()), *written.get("parents", ())):
        for condition in part.get("conditions", ()):
            condition.setdefault("message", "")
    return written


_LISTS: dict[type, tuple[str, ...]] = {
    GatewayClassStatus: ("conditions", "supportedFeatures"),
    GatewayStatus: ("addresses", "conditions", "listeners"),
    HttpRouteStatus: ("parents",),
    gie_v1.InferencePoolStatus: ("parents",),
}


def _of_gateway(gateway: Gateway, found: OfGateway, now: str) -> GatewayStatus:
    status = gateway.status or GatewayStatus()
    before = {listener.name: listener.conditions for listener in status.listeners}
    listeners = [
        ListenerStatus(
            name=each.name,
            supported_kinds=list(each.kinds),
            attached_routes=each.attached,
            conditions=_conditions(each.conditions, before.get(each.name, ()), gateway, now),
        )
        for each in found.listeners
    ]
    conditions = _conditions(found.conditions, status.conditions, gateway, now)
    return GatewayStatus(addresses=list(found.addresses), conditions=conditions, listeners=listeners)


def _of_route(route: HttpRoute, found: OfRoute, controller: str, now: str) -> HttpRouteStatus:
    said = route.status.parents if route.status is not None else []
    before = {each.parent_ref: each.conditions for each in said if each.controller_name == controller}
    ours = [
        RouteParentStatus(
            parent_ref=parent,
            controller_name=controller,
            conditions=_of_parent(findings, before.get(parent, ()), route, now),
        )
        for parent, findings in found.parents
    ]
    others = [each for each in said if each.controller_name != controller]
    return HttpRouteStatus(parents=[*others, *ours][:MAX_PARENTS])


def _of_pool(
    pool: gie_v1.InferencePool, found: OfPool, controller: str, now: str
) -> gie_v1.InferencePoolStatus:
    """The default entry of some definitions goes with the first real one."""
    said = pool.status.parents if pool.status is not None else []
    before = {each.parent_ref: each.conditions for each in said if each.controller_name == controller}
    ours = [
        gie_v1.ParentStatus(
            parent_ref=parent,
            controller_name=controller,
            conditions=_of_parent(findings, before.get(parent, ()), pool, now),
        )
        for parent, findings in found.parents
    ]
    others = [each for each in said if each.controller_name != controller]
    if ours:
        others = [each for each in others if each.parent_ref.kind != "Status"]
    return gie_v1.InferencePoolStatus(parents=[*others, *ours][:MAX_PARENTS])


def _of_parent(
    findings: Sequence[Finding], before: Iterable[api.Condition], obj: Subject, now: str
) -> list[api.Condition]:
    """Conditions in an entry of ours, which has no others."""
    ours = {finding.type for finding in findings}
    return _conditions(findings, [each for each in before if each.type in ours], obj, now)


def _conditions(
    findings: Iterable[Finding], before: Iterable[api.Condition], obj: Subject, now: str
) -> list[api.Condition]:
    """Ours, and after them those of other types, which others have written."""
    old = {condition.type: condition for condition in before}
    ours = [
        api.Condition(
            type=finding.type,
            status="True" if finding.holds else "False",
            reason=finding.reason,
            message=finding.message[:MAX_MESSAGE],
            observed_generation=obj.metadata.generation,
        ).after(old.pop(finding.type, None), now)
        for finding in findings
    ]
    return [*ours, *old.values()]
