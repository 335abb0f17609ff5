"""The pages of the dashboard, as an application below `/dashboard`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.dashboard import attention, fleet, models, requests, routes
from headgate.dashboard.rendering import HEADERS, page
from headgate.dashboard.signing_in import PATH
from headgate.dashboard.sources import Pages, Shared, Workers
from headgate.dashboard.traffic import NAMES, Traffic
from headgate.dataplane.fleet_shown import Fleet

OBJECTS_S: Final = 5.0
"""How long objects are shared: reading them costs an API server more than workers their pages."""
STATIC: Final = {
    "dashboard.css": "text/css",
    "icon.svg": "image/svg+xml",
    "dashboard.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "idiomorph-ext.min.js": "text/javascript",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
}


def application(workers: Workers) -> Starlette:
    """GET of the dashboard's pages and of the files that these need."""
    shared, traffic = Shared(workers), Traffic()

    async def merged() -> tuple[Pages[Fleet], list[fleet.Endpoint], int]:
        rows = await shared.pages("/debug/fleet", fleet.FLEET)
        return rows, *fleet.endpoints(rows)

    async def take_sample() -> None:
        if traffic.is_due:
            traffic.take(await workers.families(NAMES))

    async def fleet_page(request: Request) -> Response:
        wanted = fleet.Wanted.of(request.query_params)
        rows, found, total = await shared.get("endpoints", merged)
        signals = await shared.pages("/signals", fleet.SIGNALS)
        told = await shared.pages("/debug/routes", routes.ROUTES)
        limits = await shared.pages("/debug/limits", routes.LIMITS)
        flow = await shared.pages("/debug/flow", routes.FLOW)
        await take_sample()
        pools, unserved = fleet.pools(signals), fleet.unserved(workers.urls())
        seen = attention.Seen(
            endpoints=found,
            unserved=unserved,
            pools=pools,
            queues=routes.queues(flow),
            flows=routes.flows(flow),
            limits=routes.limits(limits),
            objects=routes.newest(told),
            traffic=traffic,
        )
        return page(
            request,
            "fleet.html",
            "Fleet",
            workers.facts(),
            [rows, signals, told, limits, flow],
            findings=attention.findings(seen),
            wanted=wanted,
            link=wanted.link,
            sorts=fleet.SORTS,
            total=total,
            shown=len(found),
            pools=fleet.busiest(pools, wanted),
            unserved=unserved,
            unserved_shown=fleet.MAX_UNSERVED,
            pool_names=[each.shown_name for each in pools],
            **fleet.totals(pools),
            **fleet.view(found, wanted),
        )

    async def requests_page(request: Request) -> Response:
        kept = await shared.pages("/debug/kept", requests.KEPT)
        running = await shared.pages(f"/debug/requests?limit={requests.IN_FLIGHT}", requests.RUNNING)
        return page(
            request,
            "requests.html",
            "Requests",
            workers.facts(),
            [kept, running],
            kinds=requests.KINDS,
            **{kind: requests.kept(kept, kind) for kind in requests.KINDS},
            left_out=sum(each.left_out for each in kept.of_workers.values()),
            running=requests.running(running),
            in_flight=requests.in_flight(running),
            slowness=requests.slowness,
        )

    async def request_page(request: Request) -> Response:
        kept = await shared.pages("/debug/kept", requests.KEPT)
        found = requests.one(kept, request.query_params)
        steps = requests.story(found) if found is not None else []
        return page(request, "request.html", "Request", workers.facts(), [kept], found=found, steps=steps)

    async def routes_page(request: Request) -> Response:
        told = await shared.pages("/debug/routes", routes.ROUTES)
        limits = await shared.pages("/debug/limits", routes.LIMITS)
        await take_sample()
        newest, (models, models_total) = routes.newest(told), traffic.models(routes.PAGE_ROWS)
        return page(
            request,
            "routes.html",
            "Routes",
            workers.facts(),
            [told, limits],
            models=models,
            models_total=models_total,
            has_rates=traffic.has_rates,
            routes=routes.rows(newest, routes.limits(limits), traffic),
            routes_total=newest.routes_total,
            problems=newest.problems,
            problems_total=newest.problems_total,
            denied=newest.denied,
        )

    async def queues_page(request: Request) -> Response:
        told = await shared.pages("/debug/routes", routes.ROUTES)
        limits = await shared.pages("/debug/limits", routes.LIMITS)
        flow = await shared.pages("/debug/flow", routes.FLOW)
        await take_sample()
        newest, flows, queues = routes.newest(told), routes.flows(flow), routes.queues(flow)
        return page(
            request,
            "queues.html",
            "Queues",
            workers.facts(),
            [told, limits, flow],
            waiting=sum(each.requests for each in queues),
            queues=queues,
            flows=flows[: routes.MAX_FLOWS],
            flows_total=len(flows),
            tenants=routes.tenants(newest, routes.limits(limits), traffic, flows),
            tenants_total=newest.tenants_total,
            tenant_names={each.name for each in newest.tenants},
        )

    async def models_page(request: Request) -> Response:
        objects = await shared.get("objects", workers.objects, OBJECTS_S)
        found = models.models(objects)
        return page(
            request,
            "models.html",
            "Models",
            workers.facts(),
            [],
            models=found,
            models_total=len(objects.models),
            bad=sum(any(each.is_bad for each in row.conditions) for row in found),
            scalings=models.scalings(objects),
            events=models.events(objects),
            missing=objects.missing,
        )

    return Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse(PATH)),
            Route(PATH, fleet_page),
            Route(PATH + "/requests", requests_page),
            Route(PATH + "/request", request_page),
            Route(PATH + "/routes", routes_page),
            Route(PATH + "/queues", queues_page),
            Route(PATH + "/models", models_page),
            Route(PATH + "/static/{name}", _static()),
        ]
    )


def _static() -> Callable[[Request], Awaitable[Response]]:
    """Serves the files of STATIC, and none else."""
    folder = resources.files("headgate.dashboard") / "static"
    files = {name: (folder / name).read_bytes() for name in STATIC}

    async def respond(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            return Response("no such file", 404, HEADERS, "text/plain")
        return Response(files[name], 200, {**HEADERS, "cache-control": "max-age=300"}, STATIC[name])

    return respond
