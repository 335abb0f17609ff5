"""The pages of a picker on its metrics port: metrics, health, and what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate.dataplane import explaining
from headgate.peers import is_loopback
from headgate.picker.explaining import PickerForms

if TYPE_CHECKING:
    from headgate.picker.shell import Shell
    from headgate.telemetry import Registry

_ONLY_HERE = (
    "explanations name Pods and their addresses: ask on the machine of the picker, or by kubectl port-forward"
)


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

    async def explain(request: Request) -> Response:
        if not is_loopback(request.client.host if request.client is not None else ""):
            return JSONResponse({"message": _ONLY_HERE}, 403)
        forms = PickerForms(shell.choices, shell.default_destination)
        most_bytes = shell.choices.max_body_bytes
        return await explaining.respond(
            request, shell.plane, forms, shell.large_bodies, most_bytes, shell.now()
        )

    async def statistics(_: Request) -> Response:
        return JSONResponse(shell.statistics())

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/debug/endpoints", endpoints),
            Route("/debug/explain", explain, methods=["POST"]),
            Route("/debug/explain/{path:path}", explain, methods=["POST"]),
            Route("/debug/flow", flow),
            Route("/debug/statistics", statistics),
        ]
    )
