"""From the objects of the dialects to one Snapshot; run once per change, never per request.

What cannot be translated is left out and becomes a Problem: one bad object never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate import api
from headgate.routing import model_routes, model_servers, phases, tls
from headgate.routing.endpoints import ReadyPods
from headgate.routing.problems import Problem, Reporter
from headgate.routing.snapshot import MODEL_ROUTE, Route, Snapshot

UNRESOLVED = frozenset(
    {
        model_routes.MODEL_SERVER_NOT_FOUND,
        tls.SECRET_NOT_FOUND,
        tls.SECRET_KEY_NOT_FOUND,
        tls.INVALID_CERTIFICATE,
        phases.NO_ROLE,
        phases.NO_GROUP,
        phases.INCOMPLETE_GROUP,
    }
)
"""Reasons of problems that are about the objects named or selected, not about the one that does so."""


def translate(
    routes: Iterable[api.ModelRoute],
    servers: Iterable[api.ModelServer],
    pods: Iterable[api.Pod],
    secrets: Iterable[api.Secret] = (),
) -> Snapshot:
    """Translates all objects; of Secrets those that `authorities_of` a ModelServer names.

    Order of the arguments' items does not matter.
    """
    problems: list[Problem] = []
    secret_of = {secret.metadata.key: secret for secret in secrets}
    ordered_servers = sorted(servers, key=lambda server: server.metadata.key)
    ready = ReadyPods(map(model_servers.selector, ordered_servers), pods)
    pools = {}
    for server in ordered_servers:
        ref = model_servers.ref(server)
        pools[ref] = model_servers.pool(server, ready, secret_of, Reporter(ref, problems))
    translated = []
    for route in sorted(routes, key=lambda route: route.metadata.age_order):
        ref = api.ObjectRef(MODEL_ROUTE, *route.metadata.key)
        translated.append(model_routes.route(route, pools.keys(), Reporter(ref, problems)))
    return Snapshot(
        models=_by_name((route.model, route) for route in translated if route.model),
        adapters=_by_name((adapter, route) for route in translated for adapter in route.adapters),
        pools=pools,
        problems=tuple(problems),
    )


def _by_name(named: Iterable[tuple[str, Route]]) -> dict[str, tuple[Route, ...]]:
    routes: dict[str, tuple[Route, ...]] = {}
    for name, route in named:
        routes[name] = (*routes.get(name, ()), route)
    return routes
