"""Decides what becomes of a request to a Gateway: an answer of its own, a Service, or a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import api
from headgate.gateway import authenticating
from headgate.gateway.gateway_api import changes
from headgate.gateway.gateway_api.answered import Answered
from headgate.gateway.gateway_api.pooled import Pooled
from headgate.gateway.gateway_api.proxied import Proxied
from headgate.gateway.gateway_api.task import Task
from headgate.gateway.gateway_api.tunnel import Tunnel
from headgate.requests.refusal import Refusal
from headgate.routing import TooCostlyError
from headgate.routing.gateway_api import InvalidBackend
from headgate.routing.patterns import Work

if TYPE_CHECKING:
    from headgate.gateway.gateway_api.connection import EntryConnection, Serving
    from headgate.gateway.gateway_api.head import Head
    from headgate.routing.gateway_api import Entry, Port


def decide(client: EntryConnection, head: Head, now: float) -> Serving:
    """Make the serving of a request."""
    shared = client.shared
    task = Task(client, head, now)
    identity = authenticating.admit(shared.services, head.method, b"", head.headers, client.peer)
    if isinstance(identity, Refusal):
        return Answered(task, refusal=identity)
    task.identity = identity
    port = shared.entry_points.ports.get(client.place)
    found = _find(port, head) if port is not None else _no_listener(head)
    if isinstance(found, Refusal):
        return Answered(task, refusal=found)
    task.entry = entry = found
    rule = entry.rule
    if rule.filters.redirect is not None:
        assert port is not None
        scheme = "https" if port.is_https else "http"
        to = changes.location(rule.filters.redirect, head, entry, scheme, client.place.port)
        return Answered(task, status=rule.filters.redirect.status, location=to)
    index = shared.backend_of(rule)
    if index is None:
        return Answered(task, refusal=_broken(f"{rule.name} has no backend with a weight"))
    backend = rule.backends[index]
    task.filters = (rule.filters, rule.backend_filters[index])
    if isinstance(backend, InvalidBackend):
        return Answered(
            task, refusal=_broken(f"{rule.name}: {backend.fault.message}", "a backend is not valid")
        )
    if isinstance(backend, api.ObjectRef):
        pool = shared.services.plane.pools.get(backend)
        if pool is None:
            return Answered(
                task, refusal=_broken(f"{rule.name}: there is no {backend}", "a backend is not there")
            )
        return Pooled(task, pool)
    service = shared.entry_points.services.get(backend)
    if service is None:
        return Answered(
            task, refusal=_broken(f"{rule.name}: there is no {backend}", "a backend is not there")
        )
    task.backend = str(backend)
    if head.upgrade and not head.has_body and not service.http2:
        client.is_tunnel = True
        return Tunnel(task, service)
    return Proxied(task, service)


def _find(port: Port, head: Head) -> Entry | Refusal:
    host = port.hosts.find(head.name)
    if host is None:
        return _no_listener(head)
    try:
        found = host.find(head.name, head, Work())
    except TooCostlyError as error:
        return Refusal.bad_request(
            f"comparing this request with the routes takes {error}: shorten its path and headers",
            code="routes_too_costly",
        )
    if found is not None:
        return found
    return Refusal.bad_request(
        f"no HTTPRoute matches this request for host {head.name[:256]!r}", code="route_not_found", status=404
    )


def _no_listener(head: Head) -> Refusal:
    return Refusal.bad_request(
        f"no listener here serves the host {head.name[:256]!r}", code="listener_not_found", status=404
    )


def _broken(logged: str, told: str = "the route has no backend") -> Refusal:
    """The Gateway API asks for status 500 if a route leads nowhere. Clients do not learn names of objects."""
    return Refusal(status=500, type="server_error", code="backend_invalid", message=told, logged=logged)
