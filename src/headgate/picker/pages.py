"""The pages of a picker on its metrics port: metrics, health, and what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from headgate.picker.shell import Shell
    from headgate.telemetry import Registry


def pages(shell: Shell, registry: Registry) -> Starlette:
    """GET /metrics, /healthz, /readyz, and under /debug the picker's state, as JSON."""

    async def metrics(request: Request) -> Response:
        content, media_type = registry.page(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def healthz(_: Request) -> Response:
        return JSONResponse({"message": "ok"})

    async def readyz(_: Request) -> Response:
        ready = shell.is_ready
        return JSONResponse({"message": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def flow(_: Request) -> Response:
        return Response(msgspec.json.encode(shell.queues.shown()), media_type="application/json")

    async def endpoints(_: Request) -> Response:
        return JSONResponse({pool.name: pool.endpoints_shown() for pool in shell.plane.pools.values()})

    async def statistics(_: Request) -> Response:
        return JSONResponse(shell.statistics())

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/debug/endpoints", endpoints),
            Route("/debug/flow", flow),
            Route("/debug/statistics", statistics),
        ]
    )
