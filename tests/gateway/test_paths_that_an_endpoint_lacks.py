"""A 404 from an endpoint that serves other requests concerns only that path and model; it is no failure."""

import httpx2

from headgate.gateway import pages

CHAT = "/v1/chat/completions"
OTHER = "/v1/responses"


def engine(*paths):
    """One that knows these paths alone, as an older version in the midst of a rollout."""

    def behave(call):
        if call.target in paths:
            call.answer(b"yes")
        else:
            call.answer(b'{"detail":"Not Found"}', "404 Not Found")

    return behave


def loads(gateway):
    return next(iter(gateway.shell.plane.pools.values())).loads


async def test_an_endpoint_without_a_path_keeps_its_other_requests(start_gateway, start_endpoint):
    """Half of a fleet is of the version before: it serves chats as ever, and is asked for the rest once."""
    older = await start_endpoint(behave=engine(CHAT))
    gateway = await start_gateway(older, await start_endpoint(behave=engine(CHAT, OTHER)))
    for _ in range(20):
        assert (await gateway.ask(path=CHAT)).status == 200
        assert (await gateway.ask(path=OTHER)).status == 200
        gateway.move(1.01)
    asked = [call.target for call in older.calls]
    assert asked.count(OTHER) == 1
    assert asked.count(CHAT) >= 5
    assert loads(gateway)[0].failures == 0
    assert not loads(gateway)[0].avoided(gateway.shell.now())


async def test_it_is_asked_again_after_a_minute(start_gateway, start_endpoint):
    """The rollout may have come to it since."""
    older = await start_endpoint(behave=engine(CHAT))
    gateway = await start_gateway(older, await start_endpoint(behave=engine(CHAT, OTHER)))
    for _ in range(6):
        await gateway.ask(path=CHAT)
        await gateway.ask(path=OTHER)
        gateway.move(1.01)
    older.behave = engine(CHAT, OTHER)
    older.calls.clear()
    gateway.move(61)
    for _ in range(12):
        await gateway.ask(path=OTHER)
    assert OTHER in [call.target for call in older.calls]


async def test_a_path_that_all_lack_by_now_is_asked_for_all_the_same(start_gateway, start_endpoint):
    """The client gets the 404 of an endpoint, and none of the gateway's."""
    endpoints = [await start_endpoint(behave=engine(CHAT)), await start_endpoint(behave=engine(CHAT, OTHER))]
    gateway = await start_gateway(*endpoints)
    for _ in range(6):
        await gateway.ask(path=CHAT)
        await gateway.ask(path=OTHER)
        gateway.move(1.01)
    await endpoints[1].stop()
    response = await gateway.ask(path=OTHER)
    assert (response.status, response.body) == (404, b'{"detail":"Not Found"}')


async def test_a_model_that_an_endpoint_lost_is_its_failure(start_gateway, start_endpoint):
    """It served the same path and model before, and now serves nothing."""
    losing = await start_endpoint(behave=engine(CHAT))
    gateway = await start_gateway(losing, await start_endpoint(behave=engine(CHAT)))
    for _ in range(6):
        await gateway.ask(path=CHAT)
        gateway.move(1.01)
    losing.behave = engine()
    for _ in range(20):
        assert (await gateway.ask(path=CHAT)).status == 200
        gateway.move(1.01)
    assert loads(gateway)[0].failures >= 5
    assert gateway.metric("headgate_gateway_ejections_total", reason="status_404") >= 1


async def test_explanations_tell_why_it_is_passed_over(start_gateway, start_endpoint):
    """Both the request and the endpoint say what it answered 404 for."""
    gateway = await start_gateway(
        await start_endpoint(behave=engine(CHAT)), await start_endpoint(behave=engine(CHAT, OTHER))
    )
    for _ in range(6):
        await gateway.ask(path=CHAT)
        await gateway.ask(path=OTHER)
        gateway.move(1.01)
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        told = (await client.post(f"/debug/explain{OTHER}", content=b'{"model": "m"}')).json()
        shown = (await client.get("/debug/endpoints")).json()
    reasons = [each["why"] for each in told["targets"][0]["endpoints"]]
    assert reasons[0] == f"recently responded with 404 to {OTHER} of model m, which others serve"
    assert [each["not_served"] for each in shown["default/pool"]] == [[{"model": "m", "path": OTHER}], []]
