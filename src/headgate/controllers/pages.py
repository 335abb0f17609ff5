"""Pages of a controller process: health for probes, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate import cluster
from headgate.controllers.autoscaling import AutoscalingController, add_figures
from headgate.controllers.gateway_api import GatewayApiController
from headgate.controllers.model import ModelController, ModelStatistics
from headgate.controllers.planning import PlanningController
from headgate.controllers.planning import add_figures as add_planning_figures
from headgate.controllers.statuses import StatusController, StatusStatistics
from headgate.telemetry import Counter, Gauge, Registry, add_process_metrics

Sample = tuple[tuple[str, ...], float]
T = TypeVar("T")


def pages(
    statuses: StatusController,
    models: ModelController,
    scaling: AutoscalingController,
    planning: PlanningController,
    gateway_api: GatewayApiController,
    leadership: cluster.Leadership,
) -> Starlette:
    """GET /healthz, /readyz and /metrics. Ready: all objects are loaded, whether it leads or not."""
    registry = metrics(statuses.statistics, models.statistics, scaling, planning, leadership)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"message": "ok"})

    async def readyz(_: Request) -> Response:
        controllers = (statuses, models, scaling, planning, gateway_api)
        ready = all(each.is_ready for each in controllers)
        return JSONResponse({"message": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def page(request: Request) -> Response:
        content, media_type = registry.page(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", page)])


def metrics(
    current: Callable[[], StatusStatistics],
    models: Callable[[], ModelStatistics],
    scaling: AutoscalingController,
    planning: PlanningController,
    leadership: cluster.Leadership,
) -> Registry:
    """All metrics of a controller process."""

    def objects() -> Iterable[Sample]:
        return [((kind,), number) for kind, number in current().index.items() if kind != "compared"]

    registry = Registry()
    registry.add(
        Gauge(
            "headgate_controller_leader",
            "1 if this process holds the Lease, or has no rivals, and so writes statuses.",
            read=lambda: [((), float(leadership.is_held()))],
        ),
        Gauge("headgate_controller_objects", "Objects that are followed.", ("kind",), objects),
        Counter(
            "headgate_controller_statuses_assessed",
            "Statuses that were computed.",
            read=_one(current, lambda now: now.assessed),
        ),
        Counter(
            "headgate_controller_statuses_written",
            "Statuses that were written.",
            read=_one(current, lambda now: now.written),
        ),
        Counter(
            "headgate_controller_conflicts",
            "Writes that were rejected because the object had changed; they are repeated.",
            read=_one(current, lambda now: now.conflicts),
        ),
        Counter(
            "headgate_controller_retries",
            "Attempts that failed, such as writes that the API server rejected; they are repeated.",
            read=_one(current, lambda now: now.queue.retries),
        ),
        Gauge(
            "headgate_controller_queue_objects",
            "Objects whose status is due, and waits for a worker.",
            read=_one(current, lambda now: now.queue.waiting),
        ),
        Gauge(
            "headgate_controller_queue_wait_seconds",
            "How long the first of them has waited.",
            read=_one(current, lambda now: now.queue.longest_wait_s),
        ),
        Gauge(
            "headgate_controller_failing_objects",
            "Objects whose last attempt failed.",
            read=_one(current, lambda now: now.queue.failing),
        ),
    )
    registry.add(
        Gauge(
            "headgate_controller_model_objects",
            "Models, and the objects and Pods that are theirs.",
            ("kind",),
            lambda: [((kind,), float(number)) for kind, number in models().objects.items()],
        ),
        Counter(
            "headgate_controller_models_reconciled",
            "Times that a Model was compared with its objects.",
            read=_one(models, lambda now: now.reconciled),
        ),
        Counter(
            "headgate_controller_model_objects_applied",
            "Objects of Models that were written.",
            read=_one(models, lambda now: now.applied),
        ),
        Counter(
            "headgate_controller_model_objects_put_back",
            "Those among them that somebody else had changed.",
            read=_one(models, lambda now: now.corrected),
        ),
        Counter(
            "headgate_controller_model_objects_deleted",
            "Objects that were no longer part of their Model.",
            read=_one(models, lambda now: now.deleted),
        ),
        Counter(
            "headgate_controller_model_statuses_written",
            "Statuses of Models that were written.",
            read=_one(models, lambda now: now.statuses_written),
        ),
        Gauge(
            "headgate_controller_models_failing",
            "Models whose last attempt failed.",
            read=_one(models, lambda now: now.queue.failing),
        ),
        Counter(
            "headgate_controller_sidecar_requests",
            "Requests to the sidecars of Pods.",
            read=_one(models, lambda now: now.sidecar_requests),
        ),
        Counter(
            "headgate_controller_sidecar_failures",
            "Those that failed; they are repeated.",
            read=_one(models, lambda now: now.sidecar_failures),
        ),
    )
    add_figures(registry, scaling.figures, scaling.reads)
    add_planning_figures(registry, planning.figures)
    add_process_metrics(registry)
    return registry


def _one(current: Callable[[], T], value: Callable[[T], float]) -> Callable[[], Iterable[Sample]]:
    """A metric without labels that is read from the current statistics."""
    return lambda: [((), value(current()))]
