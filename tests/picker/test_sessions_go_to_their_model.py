"""A WebSocket goes to an endpoint for the model in its query, and is in flight until it ends."""

import asyncio

import pytest
from picker_world import ADDRESS, FULL_DUPLEX, NONE, model, pool

SESSION = {"method": "GET", "upgrade": "websocket", "connection": "Upgrade", "content_type": None}
TUNNEL = {"method": "CONNECT", ":protocol": "websocket", "content_type": None}
FRAME = b"\x81\x85\x00\x00\x00\x00hello"
USAGE = b'{"type":"response.done","response":{"usage":{"input_tokens":7,"output_tokens":5}}}'


async def world_is_idle(world):
    """Until no session is in flight."""
    async with asyncio.timeout(10):
        while any(world.in_flight().values()):
            await asyncio.sleep(0.005)


async def opened(proxy):
    """The headers that the picker sets."""
    message = await proxy.next()
    assert message.WhichOneof("response") == "request_headers", message
    found = message.request_headers.response.header_mutation
    return {each.header.key: each.header.raw_value.decode() for each in found.set_headers}


@pytest.mark.parametrize("headers", [SESSION, TUNNEL], ids=["HTTP/1.1", "HTTP/2"])
@pytest.mark.parametrize("ends", [True, False])
async def test_the_model_is_in_the_query(picker, headers, ends):
    """Its adapter is used on the endpoint that has it loaded, and its name there replaces it in the path."""
    world = (await picker()).apply(pool(), model("talk", talk_lora=1))
    world.see((0, 0.1), (0, 0.1, "talk-lora"), (0, 0.1), max_adapters=1)
    for _ in range(3):
        proxy = await world.stream()
        proxy.headers(ends=ends, path="/v1/realtime?a=b&model=talk", **headers)
        told = await opened(proxy)
        assert told[ADDRESS] == "192.168.1.2:8000"
        assert told[":path"] == "/v1/realtime?a=b&model=talk-lora"
        assert "content-length" not in told
        assert world.in_flight()[2] == 1
        proxy.call.cancel()
        await world_is_idle(world)


@pytest.mark.parametrize("mode", [FULL_DUPLEX, NONE])
async def test_what_is_sent_in_it_passes(world, mode):
    """In both directions, as it is; it is one request in flight until the end."""
    proxy = await world.stream(request_mode=mode, response_mode=mode)
    proxy.headers(path="/v1/realtime?model=my-model", **SESSION)
    assert ":path" not in await opened(proxy)
    proxy.respond(101, upgrade="websocket")
    await proxy.response_head()
    assert sum(world.in_flight().values()) == 1
    if mode == FULL_DUPLEX:
        proxy.body(FRAME, ends=False)
        part = (await proxy.next()).request_body.response.body_mutation.streamed_response
        assert (part.body, part.end_of_stream) == (FRAME, False)
        for ends in (False, True):
            proxy.response_part(USAGE, ends=ends)
            part = (await proxy.next()).response_body.response.body_mutation.streamed_response
            assert (part.body, part.end_of_stream) == (USAGE, ends)
    else:
        proxy.call.half_close()
    await world_is_idle(world)


async def test_a_model_that_no_pool_has(world):
    """Goes where a request goes that has it in its body."""
    posted = await world.stream()
    told = await posted.ask(b'{"model":"other","prompt":"x"}')
    proxy = await world.stream()
    proxy.headers(ends=True, path="/v1/realtime?model=other", **SESSION)
    session = await proxy.next()
    is_refused = session.WhichOneof("response") == "immediate_response"
    assert is_refused == hasattr(told, "status")
    if is_refused:
        assert session.immediate_response.status.code == told.status.code


@pytest.mark.parametrize("query", ["", "?model=", "?model=a&model=b"])
async def test_without_a_model_any_endpoint_serves_it(world, query):
    """As other requests without a body."""
    proxy = await world.stream()
    proxy.headers(ends=True, path=f"/v1/realtime{query}", **SESSION)
    assert ADDRESS in await opened(proxy)
    assert not any(world.in_flight().values())
