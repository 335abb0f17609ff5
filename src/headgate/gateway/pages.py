"""The admin pages of one worker: health and state. The supervisor merges those of all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate.dataplane import explaining, fleet_shown, routes_shown
from headgate.dataplane.explaining import limits_shown
from headgate.gateway import in_flight
from headgate.gateway.explaining import GatewayForms
from headgate.requests import pool_signals

if TYPE_CHECKING:
    from headgate.gateway.shell import Shell


def admin_page(shell: Shell) -> Starlette:
    """GET /healthz, /readyz, /signals, and under /debug the gateway's state, as JSON."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"message": "ok"})

    async def readyz(_: Request) -> Response:
        ready = shell.is_ready
        return JSONResponse({"message": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def config(_: Request) -> Response:
        return JSONResponse(describe(shell))

    async def endpoints(_: Request) -> Response:
        return JSONResponse(in_flight.endpoints(shell))

    async def fleet(_: Request) -> Response:
        plane = shell.plane
        shown = fleet_shown.shown(plane.pools.values(), plane.prefixes, shell.scraper, shell.now())
        return Response(msgspec.json.encode(shown), media_type="application/json")

    async def kept(_: Request) -> Response:
        shown = shell.recorder.kept.shown(shell.now())
        return Response(msgspec.json.encode(shown), media_type="application/json")

    async def routes(_: Request) -> Response:
        tenants, denied = shell.services.credentials.tenants, [str(each) for each in shell.denied()]
        rules = shell.gateways.entry_points.rules
        shown = routes_shown.shown(shell.plane.snapshot, rules, tenants, shell.plane.problems(), denied)
        return Response(msgspec.json.encode(shown), media_type="application/json")

    async def limits(_: Request) -> Response:
        return JSONResponse(limits_shown.page(shell.plane.routes.limits, shell.now()))

    async def requests(request: Request) -> Response:
        most = in_flight.MAX_LIMIT
        given = request.query_params.get("limit", str(in_flight.DEFAULT_LIMIT))
        if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= most):
            told = f"limit={given[:64]!r}: a number from 1 to {most} is needed"
            return JSONResponse({"message": told}, 400)
        return JSONResponse(in_flight.requests(shell, int(given[:9])))

    async def flow(_: Request) -> Response:
        return Response(msgspec.json.encode(shell.queues.shown()), media_type="application/json")

    async def signals(_: Request) -> Response:
        now, queues = shell.now(), shell.queues
        pools = [pool_signals.of_pool(pool, queues.of(pool), now) for pool in shell.plane.pools.values()]
        shown = pool_signals.Page(is_ready=shell.plane.is_ready, pools=pools)
        return Response(msgspec.json.encode(shown), media_type="application/json")

    async def explain(request: Request) -> Response:
        most_bytes, reader = shell.settings.clients.max_body_bytes, shell.services.large_bodies
        return await explaining.respond(request, shell.plane, GatewayForms(), reader, most_bytes, shell.now())

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/debug/config", config),
            Route("/debug/endpoints", endpoints),
            Route("/debug/fleet", fleet),
            Route("/debug/kept", kept),
            Route("/debug/routes", routes),
            Route("/debug/limits", limits),
            Route("/debug/explain", explain, methods=["POST"]),
            Route("/debug/explain/{path:path}", explain, methods=["POST"]),
            Route("/debug/flow", flow),
            Route("/debug/requests", requests),
            Route("/signals", signals),
        ]
    )


def describe(shell: Shell) -> dict[str, object]:
    """The snapshot in use, and the work in flight on each endpoint."""
    snapshot = shell.plane.snapshot
    return {
        "models": {name: [route.name for route in routes] for name, routes in snapshot.models.items()},
        "adapters": {name: [route.name for route in routes] for name, routes in snapshot.adapters.items()},
        "unknown_models": [route.name for route in snapshot.unknown],
        "pools": {pool.name: pool.endpoints_shown() for pool in shell.plane.pools.values()},
        "gateway_ports": shell.gateways.ports_shown(),
        "certificates": shell.clients.certificates.shown() if shell.clients.certificates is not None else [],
        "problems": [
            {
                "kind": problem.kind,
                "object": str(problem.key),
                "field": problem.field,
                "reason": problem.reason,
                "message": problem.message,
            }
            for problem in shell.plane.problems()
        ],
        "denied": [
            {"kind": denied.resource.kind, "namespace": denied.namespace, "message": str(denied)}
            for denied in shell.denied()
        ],
        "scheduling": shell.plane.policies.shown(
            (pool.pool, pool.policy) for pool in shell.plane.pools.values()
        ),
        "statistics": shell.statistics(),
    }
