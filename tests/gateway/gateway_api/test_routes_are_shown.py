"""`/debug/routes`, which the dashboard reads, has HTTPRoutes beside the routes of models."""

from __future__ import annotations

import httpx2

from headgate.gateway.pages import admin_page


async def shown(gateway):
    """The routes of the page, by name."""
    transport = httpx2.ASGITransport(app=admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        told = (await http.get("/debug/routes")).json()
    assert told["routes_total"] == len(told["routes"])
    return {each["name"]: each for each in told["routes"]}


async def test_a_route_has_its_backends_and_shares(front, start_endpoint, service, to):
    """Services, pools, and what leads nowhere, with the reason."""
    endpoint = await start_endpoint()
    pool = front.pool("p", endpoint)
    backends = [to("web", 3), {**pool, "weight": 1}, to("gone", 0)]
    await front.route({"name": "a", "backendRefs": backends}, objects_=service("web", endpoint))
    [route] = (await shown(front.gateway)).values()
    assert (route["name"], route["model"], route["is_http"]) == ("HTTPRoute/shop/r", None, True)
    [(name, is_conditional, targets)] = [
        (each["name"], each["is_conditional"], each["targets"]) for each in route["rules"]
    ]
    assert (name, is_conditional) == ("a", False)
    assert targets[:2] == [["Service/shop/web:80", 0.75], ["InferencePool/shop/p", 0.25]]
    assert targets[2] == ["nowhere (there is no Service shop/gone, or it may not be read)", 0.0]


async def test_a_deleted_route_is_gone(front, start_endpoint, service, to):
    endpoint = await start_endpoint()
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    await front.serve()
    assert await shown(front.gateway) == {}
