"""Requests for an adapter go to an endpoint whose engine reports it as loaded, or lists it."""

import json


def body(adapter):
    return {"model": adapter, "prompt": "hello"}


def requests_at(endpoint):
    return [call.json["model"] for call in endpoint.calls if call.method == "POST"]


def engine_with(models, running=()):
    """An engine with these models, of which the given adapters are in use."""

    def behave(call):
        if call.target == "/v1/models":
            call.answer(json.dumps({"data": [{"id": name} for name in models]}).encode())
        elif call.target == "/metrics":
            names = ",".join(running)
            call.answer(
                b"vllm:num_requests_waiting 0\nvllm:lora_requests_info{"
                + f'max_lora="2",running_lora_adapters="{names}",waiting_lora_adapters=""}} 1\n'.encode()
            )
        elif call.json["model"] in models:
            call.answer(b"{}")
        else:
            call.answer(b'{"error": {"message": "no such model"}}', "404 Not Found")

    return behave


async def test_the_engine_that_has_the_adapter_gets_its_requests(start_endpoint, start_looking, eventually):
    """One of three knows it; the two others serve the base model like it."""
    endpoints = [
        await start_endpoint(behave=engine_with(["m", *known])) for known in ([], ["adapter"], ["other"])
    ]
    gateway = await start_looking(*endpoints)
    (pool,) = gateway.shell.plane.pools.values()
    await eventually(lambda: all(load.reading and load.reading.models for load in pool.loads))
    for _ in range(6):
        assert (await gateway.ask(body("adapter"))).status == 200
    assert [len(requests_at(endpoint)) for endpoint in endpoints] == [0, 6, 0]
    for _ in range(6):
        assert (await gateway.ask(body("m"))).status == 200


async def test_the_engine_that_uses_the_adapter_gets_more_of_it(start_endpoint, start_looking, eventually):
    """Another gateway sent it there, and the others would have to load it."""
    known = ["m", "adapter", "b", "c"]
    running = [[], ["b"], ["adapter", "b"], []]
    endpoints = [await start_endpoint(behave=engine_with(known, each)) for each in running]
    gateway = await start_looking(*endpoints)
    (pool,) = gateway.shell.plane.pools.values()
    await eventually(lambda: all(load.reading for load in pool.loads))
    for _ in range(4):
        await gateway.ask(body("adapter"))
    assert [len(requests_at(endpoint)) for endpoint in endpoints] == [0, 0, 4, 0]


async def test_an_answer_that_the_adapter_is_unknown_makes_the_list_be_read_again(
    start_endpoint, start_looking, eventually
):
    """It was unloaded since the list was read: the request goes elsewhere, and so do those after it."""
    models = ["m", "adapter"]
    first, second = (
        await start_endpoint(behave=engine_with(models)),
        await start_endpoint(behave=engine_with(["m", "adapter"])),
    )
    gateway = await start_looking(first, second)
    (pool,) = gateway.shell.plane.pools.values()
    await eventually(lambda: all(load.reading and load.reading.models for load in pool.loads))
    await gateway.ask(body("adapter"))
    home, other = (first, second) if requests_at(first) else (second, first)
    home.behave = engine_with(["m"])
    assert (await gateway.ask(body("adapter"))).status == 200
    await eventually(lambda: any("adapter" not in load.reading.models for load in pool.loads if load.reading))
    assert (await gateway.ask(body("adapter"))).status == 200
    assert requests_at(other) == ["adapter", "adapter"]
