"""The status that an object should have now, from nothing but the objects that it has to do with."""

from __future__ import annotations

from headgate import api, routing
from headgate.controllers import conditions, findings
from headgate.controllers.object_index import ObjectIndex, Observed


def status_of(obj: Observed, index: ObjectIndex, now: str) -> api.ObservedStatus:
    """`now` is RFC 3339. Costs as much as the Pods of the ModelServers that are involved."""
    found = _of_server(obj, index) if isinstance(obj, api.ModelServer) else _of_route(obj, index)
    return conditions.observed(obj.status, found, obj.metadata.generation, now)


def _of_server(server: api.ModelServer, index: ObjectIndex) -> list[conditions.Finding]:
    pods = index.pods_of(server)
    secrets = index.secrets_of(server)
    return findings.of_server(server, routing.translate([], [server], pods, secrets), pods)


def _of_route(route: api.ModelRoute, index: ObjectIndex) -> list[conditions.Finding]:
    servers = index.servers_of(route)
    pods = {pod.metadata.key: pod for server in servers for pod in index.pods_of(server)}
    secrets = index.secrets_of(route)
    return findings.of_route(
        route, routing.translate([route, *index.rivals_of(route)], servers, pods.values(), secrets)
    )
