"""The metrics page and the admin page of all workers: merges the responses of every worker.

A worker that does not respond in time is left out of the admin pages and listed; its last known metrics are
used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate import dashboard
from headgate.dataplane import explaining
from headgate.gateway import setting_types
from headgate.gateway.settings import GatewaySettings
from headgate.serving import Application, Closed, Guarded
from headgate.telemetry import sums
from headgate.workers import channel, signals
from headgate.workers.connection import NoAnswer
from headgate.workers.dashboard_source import DashboardSource
from headgate.workers.messages import Answered
from headgate.workers.page_hosts import KnownHosts
from headgate.workers.process import WorkerProcess
from headgate.workers.supervisor import Supervisor

ANSWER_S = 2.0

Shown = dict[str, Any]
Answers = Mapping[WorkerProcess, Shown]


def metrics_page(supervisor: Supervisor) -> KnownHosts:
    """GET /metrics: sums over all workers, including those that have ended; GET /signals: what they know of
    each pool now."""

    async def metrics(request: Request) -> Response:
        workers = list(supervisor.workers)
        await asyncio.gather(
            *(worker.connection.count(ANSWER_S) for worker in workers), return_exceptions=True
        )
        page, content_type = supervisor.workers.page(
            sums.families(supervisor.registry), request.headers.get("accept", "")
        )
        return Response(page, headers={"content-type": content_type})

    app = Starlette(
        routes=[Route("/metrics", metrics), Route(signals.PATH, signals.SignalsPage(supervisor).respond)]
    )
    return _guarded(supervisor, app, "metrics", lambda settings: settings.metrics.host)


def admin_page(supervisor: Supervisor) -> KnownHosts:
    """GET /healthz and /readyz, under /debug the state of the workers, as JSON, and the dashboard.

    Other paths are served by one worker.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"message": "ok"})

    async def readyz(_: Request) -> Response:
        ready = supervisor.is_ready
        shown: Shown = {"message": "ready" if ready else "not ready", "workers": _states(supervisor)}
        if supervisor.configuration.errors:
            shown["configuration_errors"] = supervisor.configuration.errors
        if supervisor.objects.errors:
            shown["object_errors"] = supervisor.objects.errors
        return JSONResponse(shown, 200 if ready else 503)

    def merged(put_together: Callable[[Answers, Request], Shown]) -> Callable[[Request], Any]:
        async def page(request: Request) -> Response:
            answers, silent = await _ask_all(supervisor, request)
            refused = next((each for each in answers.values() if each.status != 200), None)
            if refused is not None:
                return _response(refused)
            shown = put_together(
                {worker: msgspec.json.decode(each.body) for worker, each in answers.items()}, request
            )
            if silent:
                shown["no_answer"] = silent
            return JSONResponse(shown)

        return page

    def config(answers: Answers, _: Request) -> Shown:
        return _config(supervisor, answers)

    async def objects(_: Request) -> Response:
        shown = supervisor.objects.shown()
        if shown is None:
            return JSONResponse({"message": "the objects come from an API server"}, 404)
        return JSONResponse(shown)

    async def other(request: Request) -> Response:
        most = min(supervisor.configuration.settings.clients.max_body_bytes, channel.MAX_CARRIED_BYTES)
        body = await explaining.read_body(request, most)
        if body is None:
            return JSONResponse({"message": f"the body is longer than {most} bytes"}, 413)
        ready = sorted(supervisor.slots.serving, key=lambda worker: worker.slot)
        if not ready:
            return JSONResponse({"message": "no worker is ready"}, 503)
        path, query = request.scope["raw_path"].decode("latin-1"), request.url.query
        headers = request.headers.items()
        try:
            return _response(
                await ready[0].connection.ask(request.method, path, query, body, ANSWER_S, headers)
            )
        except NoAnswer as error:
            return JSONResponse({"message": str(error)}, 504)

    app = Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/debug/config", merged(config)),
            Route("/debug/objects", objects),
            Route("/debug/endpoints", merged(_endpoints)),
            Route("/debug/limits", merged(_limits)),
            Route("/debug/flow", merged(_flow)),
            Route("/debug/requests", merged(_requests)),
            *dashboard.application(DashboardSource(supervisor)).routes,
            Route("/{path:path}", other, methods=["GET", "POST"]),
        ]
    )
    return _guarded(supervisor, app, "admin", lambda settings: settings.admin.host, dashboard.SignIn)


def _guarded(
    supervisor: Supervisor,
    app: Starlette,
    page: str,
    host: Callable[[GatewaySettings], str],
    before: Callable[[Guarded], Application] = lambda guarded: guarded,
) -> KnownHosts:
    """Served under known hosts, and if clients need credentials, to those with an admin's. `before` makes
    what is in front of the guard."""

    def rejected(reason: str) -> None:
        supervisor.counters.page_requests_rejected.labels(page, reason).value += 1

    def closed(credential: bytes) -> Closed | None:
        credentials = supervisor.credentials
        denial = credentials.opens_pages(credential) if credentials.guards_pages else None
        return None if denial is None else Closed(denial.code, denial.status, denial.message)

    guarded = before(Guarded(app, closed, rejected))
    return KnownHosts(guarded, lambda: supervisor.configuration.settings, host, rejected)


def _response(answered: Answered) -> Response:
    headers = {"content-type": answered.content_type} if answered.content_type else {}
    return Response(answered.body, answered.status, headers)


def _states(supervisor: Supervisor) -> Shown:
    states = [worker.state for worker in supervisor.workers]
    return {state: states.count(state) for state in sorted(set(states))}


async def _ask_all(
    supervisor: Supervisor, request: Request
) -> tuple[dict[WorkerProcess, Answered], list[str]]:
    """Responses by worker, in the workers' order, and the reasons why others did not respond."""
    workers = sorted(supervisor.workers, key=lambda worker: (worker.slot, worker.started))
    path, query = request.url.path, request.url.query
    answers = await asyncio.gather(
        *(worker.connection.ask("GET", path, query, b"", ANSWER_S) for worker in workers),
        return_exceptions=True,
    )
    found: dict[WorkerProcess, Answered] = {}
    silent: list[str] = []
    for worker, each in zip(workers, answers, strict=True):
        if isinstance(each, Answered):
            found[worker] = each
        elif isinstance(each, NoAnswer):
            silent.append(str(each))
        else:
            raise each
    return found, silent


# -- merging


def _requests(answers: Answers, request: Request) -> Shown:
    """The oldest requests of all workers, up to the requested number."""
    found = [{"worker": w.slot, **each} for w, shown in answers.items() for each in shown["requests"]]
    found.sort(key=lambda each: each["age_s"], reverse=True)
    limit = max((len(shown["requests"]) for shown in answers.values()), default=0)
    if given := request.query_params.get("limit"):
        limit = int(given)  # the workers have validated it
    counts = {name: sum(shown[name] for shown in answers.values()) for name in ("total", "sent_ahead")}
    return {**counts, "requests": found[:limit]}


def _endpoints(answers: Answers, _: Request) -> Shown:
    """For each pool, every worker's view of each endpoint, sorted by endpoint."""
    pools: Shown = {}
    for worker, shown in answers.items():
        for pool, endpoints in shown.items():
            pools.setdefault(pool, []).extend({"worker": worker.slot, **each} for each in endpoints)
    for endpoints in pools.values():
        endpoints.sort(key=lambda each: (each["name"], each["address"], each["worker"]))
    return pools


def _limits(answers: Answers, _: Request) -> Shown:
    """For each route, every worker's own account."""
    routes: Shown = {}
    for worker, shown in answers.items():
        for route, limit in shown.items():
            routes.setdefault(route, []).append({"worker": worker.slot, **limit})
    return routes


def _flow(answers: Answers, _: Request) -> Shown:
    """For each pool, every worker's queue: each worker has its own."""
    pools: Shown = {}
    for worker, shown in answers.items():
        for pool, queues in shown.items():
            pools.setdefault(pool, []).extend({**each, "worker": worker.slot} for each in queues)
    return pools


def _settings(settings: GatewaySettings) -> Shown:
    """Settings that can be set; values computed from them are shown where they take effect."""
    return {
        section.name: {
            each.name: msgspec.to_builtins(getattr(getattr(settings, section.name), each.name))
            for each in section.settings
        }
        for section in setting_types.sections()
    }


def _config(supervisor: Supervisor, answers: Answers) -> Shown:
    """The objects of the first serving worker, the settings, and the state of all workers."""
    serving = [worker for worker in answers if not worker.is_retiring] or list(answers)
    shown = dict(answers[serving[0]]) if serving else {}
    shown.pop("statistics", None)
    restarts = {slot.number: slot.restarts for slot in supervisor.slots}
    return shown | {
        "settings": _settings(supervisor.configuration.settings),
        "configuration": supervisor.configuration.shown(),
        "workers": [
            {
                "worker": worker.slot,
                "pid": worker.pid,
                "state": worker.state,
                "started": round(worker.started, 3),
                "restarts": restarts.get(worker.slot, 0),
                "statistics": answers.get(worker, {}).get("statistics"),
            }
            for worker in sorted(supervisor.workers, key=lambda worker: (worker.slot, worker.started))
        ],
    }
