"""Which listeners accept a route by one of its parentRefs, and why no listener does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headgate import api
from headgate.api import http_routes, reference_grants
from headgate.routing.gateway_api import faults, hostnames
from headgate.routing.gateway_api.faults import Fault
from headgate.routing.gateway_api.listeners import ListenerState


class Attached(msgspec.Struct, frozen=True):
    """A listener that a route is attached to, and the host names that reach the route there."""

    listener: ListenerState
    hosts: tuple[tuple[str, str], ...]
    """Each as the narrower of the listener's and the route's, and as the route has it, for its precedence."""


class Attachment(msgspec.Struct, frozen=True):
    """A route and one of its parentRefs."""

    reference: http_routes.ParentReference
    gateway: api.ObjectKey
    attached: tuple[Attached, ...] = ()
    fault: Fault | None = None
    """Why no listener accepts the route."""


def gateway_of(route: api.HttpRoute, reference: http_routes.ParentReference) -> api.ObjectKey | None:
    """The Gateway that a parentRef names; None if it names something else."""
    if (reference.group, reference.kind) != (reference_grants.GROUP, "Gateway"):
        return None
    return api.ObjectKey(reference.namespace or route.metadata.namespace, reference.name)


def attach(
    route: api.HttpRoute,
    reference: http_routes.ParentReference,
    gateway: api.ObjectKey,
    listeners: Sequence[ListenerState],
    namespaces: Mapping[str, Mapping[str, str]],
) -> Attachment:
    """Attach a route to the listeners of a Gateway of Headgate's class. `namespaces`: labels of each."""
    named = [each for each in listeners if _is_named(reference, each)]
    if not named:
        told = f"Gateway {gateway} has no listener{_as_named(reference)}"
        return _refused(reference, gateway, faults.NO_MATCHING_PARENT, told)
    allowing = [each for each in named if _allows(each, route, gateway, namespaces)]
    if not allowing:
        told = (
            f"no listener of Gateway {gateway}{_as_named(reference)} allows HTTPRoutes of namespace "
            f"{route.metadata.namespace}: see allowedRoutes of its listeners"
        )
        return _refused(reference, gateway, faults.NOT_ALLOWED, told)
    attached = tuple(
        Attached(each, hosts) for each in allowing if (hosts := _hosts(each.hostname, route.spec.hostnames))
    )
    if not attached:
        have = ", ".join(sorted(each.hostname for each in allowing))
        told = (
            f"none of the route's host names ({', '.join(route.spec.hostnames)}) fits a listener of "
            f"Gateway {gateway}{_as_named(reference)} ({have})"
        )
        return _refused(reference, gateway, faults.NO_MATCHING_HOSTNAME, told)
    return Attachment(reference, gateway, attached)


def _refused(
    reference: http_routes.ParentReference, gateway: api.ObjectKey, reason: str, told: str
) -> Attachment:
    return Attachment(reference, gateway, fault=Fault(faults.ACCEPTED, reason, told))


def _is_named(reference: http_routes.ParentReference, listener: ListenerState) -> bool:
    spec = listener.spec
    return reference.section_name in (None, spec.name) and reference.port in (None, spec.port)


def _as_named(reference: http_routes.ParentReference) -> str:
    parts = [f" named {reference.section_name}"] if reference.section_name is not None else []
    parts += [f" on port {reference.port}"] if reference.port is not None else []
    return "".join(parts)


def _allows(
    listener: ListenerState,
    route: api.HttpRoute,
    gateway: api.ObjectKey,
    namespaces: Mapping[str, Mapping[str, str]],
) -> bool:
    if route.resource.kind not in listener.kinds:
        return False
    allowed, namespace = listener.spec.allowed_routes.namespaces, route.metadata.namespace
    if allowed.from_ == "All":
        return True
    if allowed.from_ == "Same":
        return namespace == gateway.namespace
    labels, selector = namespaces.get(namespace), allowed.selector
    return labels is not None and selector is not None and selector.matches(dict(labels))


def _hosts(listener: str, route: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The host names in common, each with the route's own."""
    found: dict[str, str] = {}
    for name in [each.lower() for each in route] or [hostnames.ANY]:
        common = hostnames.intersection(listener, name)
        if common is None:
            continue
        known = found.get(common)
        if known is None or hostnames.specificity(name) < hostnames.specificity(known):
            found[common] = name
    return tuple(found.items())
