"""The process of body-based routing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate import api, cluster, extproc, loop_turns, rpc, serving, telemetry
from headgate.dataplane.bodies import BodyMemory
from headgate.picker.base_models import BaseModels
from headgate.picker.body_router import RouterSettings, RouterStream
from headgate.picker.certificates import Certificates
from headgate.picker.host import Call
from headgate.picker.service import listen
from headgate.picker.settings import Listening

MAX_BODIES_BYTES = 512 << 20


class Router:
    """The `RouterHost` of its streams."""

    def __init__(self, settings: RouterSettings, registry: telemetry.Registry) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self.loop.time
        self.bodies = BodyMemory(MAX_BODIES_BYTES, settings.max_body_bytes)
        self.base_models = BaseModels()
        self.is_ready = False
        self.results = telemetry.Counter(
            "headgate_body_router_requests",
            "Requests by what became of the field: success, field_missing, field_empty or invalid_body.",
            ("result",),
        )
        registry.add(self.results)

    def open(self, call: Call) -> RouterStream:
        """A new stream, for one request."""
        return RouterStream(self, call)


async def run_router(
    settings: RouterSettings,
    listening: Listening,
    kubeconfig: Path | None,
    namespace: str | None,
    stop: asyncio.Event,
    on_ready: Callable[[int], None],
    drain_s: float = 30.0,
) -> None:
    """Serve until `stop` is set, then let streams end. `namespace`: of the ConfigMaps with base models; None
    for all. Calls `on_ready` with the port once they are loaded.

    Raises cluster.ConfigurationError, CertificateError, and OSError.
    """
    registry = telemetry.Registry()
    telemetry.add_process_metrics(registry)
    router = Router(settings, registry)
    tls = Certificates(listening) if listening.is_secure else None
    turns = loop_turns.Turns(router.loop)
    health = rpc.health.services({"": lambda: router.is_ready}, lambda: router.is_ready)
    limits = rpc.Limits(max_message_bytes=listening.max_message_bytes)
    processing = rpc.Server(
        {extproc.PATH: router.open, **health}, turns, limits, tls.context if tls is not None else None
    )
    healths = rpc.Server(health, turns, rpc.Limits())
    page = serving.by_token_file(_pages(router, registry), listening.page_token_file)
    use = serving.Use("metrics", "--host", "--metrics-port")
    with serving.listening_socket(listening.host, listening.metrics_port, use=use) as page_socket:
        try:
            port = await listen(processing, listening.host, listening.grpc_port, "--grpc-port")
            await listen(healths, listening.host, listening.health_port, "--grpc-health-port")
            async with cluster.Client.from_kubeconfig(kubeconfig) as client, asyncio.TaskGroup() as tasks:
                informer = cluster.Informer(client, api.ConfigMap, namespace)
                informer.subscribe(router.base_models.note)
                running = [
                    tasks.create_task(informer.run()),
                    tasks.create_task(serving.serve_page(page, page_socket)),
                ]
                if tls is not None:
                    running.append(tasks.create_task(tls.follow()))
                await informer.wait_known(5.0)
                router.is_ready = True
                on_ready(port)
                await stop.wait()
                router.is_ready = False
                await processing.drain(drain_s)
                for task in running:
                    task.cancel()
        finally:
            await processing.close()
            await healths.close()


def _pages(router: Router, registry: telemetry.Registry) -> Starlette:
    async def metrics(request: Request) -> Response:
        content, media_type = registry.page(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def readyz(_: Request) -> Response:
        ready = router.is_ready
        return JSONResponse({"message": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"message": "ok"})

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/readyz", readyz), Route("/healthz", healthz)]
    )
