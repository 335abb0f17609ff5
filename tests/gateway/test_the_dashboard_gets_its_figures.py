"""What a worker tells the dashboard of its endpoints, routes and tenants."""

import httpx2
import msgspec

from headgate.api.tenants import Tenant
from headgate.dataplane import fleet_shown, routes_shown
from headgate.dataplane.fleet_shown import Fleet
from headgate.dataplane.routes_shown import RoutesPage
from headgate.gateway import pages


async def page(gateway, name, type_):
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        answer = await client.get(f"/debug/{name}")
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=type_)


async def test_an_endpoint_that_is_out_says_why(start_gateway, start_endpoint):
    """With its failures; the other one has the requests."""
    failing = await start_endpoint(behave=lambda call: call.reset())
    serving = await start_endpoint(behave=lambda call: call.answer())
    gateway = await start_gateway(failing, serving, settings={"endpoints_ejection_failures": 1})
    for _ in range(3):
        assert (await gateway.ask()).status == 200
    out, fine = (await page(gateway, "fleet", Fleet)).endpoints
    assert (out.name, out.pool, out.state, out.failures) == ("default/pod-0", "default/pool", "ejected", 1)
    assert "gets no requests for another" in out.why
    assert "reset (1)" in out.why
    assert (fine.state, fine.why, fine.started, fine.requests) == ("healthy", "", 3, 0)
    assert fine.address == f"127.0.0.1:{serving.port}"


async def test_large_fleets_are_cut(start_gateway, start_endpoint, monkeypatch):
    """With the number of all, so that the page says what is missing."""
    gateway = await start_gateway(await start_endpoint(), await start_endpoint())
    monkeypatch.setattr(fleet_shown, "MAX_ENDPOINTS", 1)
    shown = await page(gateway, "fleet", Fleet)
    assert (len(shown.endpoints), shown.total) == (1, 2)


async def test_routes_have_shares_of_their_pools(gateway):
    """As the snapshot in use has them."""
    shown = await page(gateway, "routes", RoutesPage)
    (route,) = shown.routes
    assert (route.name, route.model) == ("default/route", "m")
    assert [rule.targets for rule in route.rules] == [[("default/pool", 1.0)]]
    assert (shown.routes_total, shown.tenants, shown.problems) == (1, [], [])


async def test_tenants_are_shown_with_their_limits(gateway):
    """By the names under which their limits are counted."""
    spec = {"models": ["a"], "share": 2, "limits": [{"unit": "minute", "inputTokensPerUnit": 5}]}
    tenant = msgspec.convert({"metadata": {"name": "t"}, "spec": spec | {"priority": {"max": 0}}}, Tenant)
    shown = routes_shown.shown(gateway.shell.plane.snapshot, (), {"t": tenant}, (), ["no Pods"])
    (found,) = shown.tenants
    assert (found.name, found.models, found.share, found.limits) == ("t", ["a"], 2, ["tenant/t/minute"])
    assert (found.lowest, found.highest, shown.denied) == (None, 0, ["no Pods"])
