"""OpenAI's SDK and the `websockets` client hold realtime sessions with an engine through the gateway."""

import asyncio

import pytest
import websockets

from headgate import routing

ROUTE = "/v1/realtime?model=m"


def url(gateway, path=ROUTE):
    return f"ws://127.0.0.1:{gateway.port}{path}"


async def test_openais_sdk(start_gateway, simulator, openai_sdk):
    """A text goes in, its answer comes back, and the tokens of all answers are counted."""
    gateway = await start_gateway(simulator)
    async with openai_sdk(gateway).realtime.connect(model="m") as session:
        assert (await session.recv()).session.model == "m"
        for said in ("the depth of the canal", "again"):
            content = [{"type": "input_text", "text": said}]
            item = {"type": "message", "role": "user", "content": content}
            await session.conversation.item.create(item=item)
            await session.response.create()
            answer = ""
            async for event in session:
                if event.type == "response.output_text.done":
                    answer = event.text
                if event.type == "response.done":
                    break
            assert answer == said
    await gateway.idle()
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 6 + 2
    assert gateway.metric("headgate_gateway_tokens_total", direction="input") == 6 + (6 + 6 + 2)


async def test_a_session_that_has_used_up_a_limit(start_gateway, simulator, openai_sdk):
    """The SDK gets the whole answer, and then the code to come back later."""
    limits = routing.TokenLimits(output=3, unit="hour", unit_s=3600)
    gateway = await start_gateway(simulator, limits=limits)
    async with openai_sdk(gateway).realtime.connect(model="m") as session:
        content = [{"type": "input_text", "text": "the depth of the canal"}]
        await session.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await session.response.create()
        while (await session.recv()).type != "response.done":
            pass
        with pytest.raises(websockets.ConnectionClosed) as raised:
            await session.recv()
    assert raised.value.rcvd.code == 1013
    assert "try again in" in raised.value.rcvd.reason


async def test_messages_of_any_size(start_gateway, simulator):
    """Text and binary, both ways, at the pace of the slower side."""
    gateway = await start_gateway(simulator)
    async with websockets.connect(url(gateway), max_size=None) as socket:
        await socket.recv()
        for message in ("hello", b"\x00" * 125, b"\x01" * 70_000, "x" * 3_000_000):
            await socket.send(message)
            assert await socket.recv() == message
        assert await asyncio.wait_for(await socket.ping(), 10) >= 0


async def test_the_engines_name_of_the_model(start_gateway, start_simulator):
    """The query of the endpoint's request has its own name; other parameters stay."""
    engine = await start_simulator("simulated/realtime model")
    gateway = await start_gateway(engine, model="simulated/realtime model")
    async with websockets.connect(url(gateway, "/v1/realtime?a=%20b&model=m")) as socket:
        assert '"model":"simulated/realtime model"' in await socket.recv()


async def test_sessions_that_are_refused(start_gateway, simulator):
    """Each with its status, before anything reaches an endpoint."""
    gateway = await start_gateway(simulator)
    for path, status in (
        ("/v1/realtime", 400),
        ("/v1/realtime?model=m&model=m", 400),
        ("/v1/realtime?model=" + "x" * 2000, 400),
        ("/v1/realtime?model=other", 404),
        ("/v1/chat/completions?model=m", 405),
        ("/v1/unknown?model=m", 404),
    ):
        with pytest.raises(websockets.InvalidStatus) as raised:
            await websockets.connect(url(gateway, path))
        assert raised.value.response.status_code == status, path
