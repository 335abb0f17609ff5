"""After a 404 for an adapter, the endpoint is known to lack it, whether or not it lists models."""

import pytest


def body(model="adapter"):
    return {"model": model, "prompt": "hello"}


def engine(*models):
    """One without a list of models."""

    def behave(call):
        if call.json["model"] in models:
            call.answer(b"yes")
        else:
            call.answer(b"no such model", "404 Not Found")

    return behave


def loads(gateway):
    return next(iter(gateway.shell.plane.pools.values())).loads


def calls(endpoints):
    return [len(endpoint.calls) for endpoint in endpoints]


@pytest.mark.parametrize("policy", ["predicted", "least-work", "random"])
async def test_the_request_goes_where_the_adapter_is(start_gateway, start_endpoint, policy):
    """One of five has it: each of the others is asked at most once, and only the first client gets 404."""
    endpoints = [await start_endpoint(behave=engine("m")) for _ in range(5)]
    endpoints[3].behave = engine("m", "adapter")
    gateway = await start_gateway(*endpoints, settings={"scheduling_policy": policy})
    statuses = [(await gateway.ask(body())).status for _ in range(10)]
    assert set(statuses[1:]) == {200}
    assert all(count <= 1 for place, count in enumerate(calls(endpoints)) if place != 3)
    assert [load.failures for load in loads(gateway)] == [0] * 5
    assert not any(load.avoided(gateway.shell.now()) for load in loads(gateway))


async def test_nobody_has_it(start_gateway, start_endpoint):
    """The client gets the 404 of an endpoint; once all are known to lack it, one is asked."""
    endpoints = [await start_endpoint(behave=engine("m")) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    assert (await gateway.ask(body())).body == b"no such model"
    assert calls(endpoints) == [1, 1]
    assert (await gateway.ask(body())).status == 404
    assert sum(calls(endpoints)) == 3


async def test_it_is_asked_again_after_a_minute(start_gateway, start_endpoint, eventually):
    """Somebody may have loaded the adapter since."""
    lacking, having = await start_endpoint(behave=engine("m")), await start_endpoint(behave=engine("adapter"))
    gateway = await start_gateway(lacking, having)
    loads(gateway)[1].suspected(gateway.shell.now())
    assert (await gateway.ask(body())).status == 200
    assert "adapter" in loads(gateway)[0].models.lacking
    gateway.move(61)
    await eventually(lambda: not loads(gateway)[0].models.lacking)


async def test_an_answer_shows_that_it_is_there(start_gateway, start_endpoint):
    """All were known to lack it; one has loaded it since."""
    endpoints = [await start_endpoint(behave=engine("m")) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    await gateway.ask(body())
    for endpoint in endpoints:
        endpoint.behave = engine("m", "adapter")
    assert (await gateway.ask(body())).status == 200
    assert sorted("adapter" in load.models.lacking for load in loads(gateway)) == [False, True]


async def test_a_request_for_the_base_model_goes_everywhere(start_gateway, start_endpoint):
    """What an endpoint lacks says nothing of its other models."""
    endpoints = [
        await start_endpoint(behave=engine("m")),
        await start_endpoint(behave=engine("m", "adapter")),
    ]
    gateway = await start_gateway(*endpoints)
    await gateway.ask(body())
    before = calls(endpoints)[0]
    for _ in range(6):
        assert (await gateway.ask(body("m"))).status == 200
    assert calls(endpoints)[0] == before + 6
