"""OpenAI's SDK reads a stream with progress like any other, and a refusal on it as an error."""

import asyncio

import openai
import pytest

ROOM_FOR_ONE = {"queue_detector": "concurrency-detector", "queue_max_in_flight": 1}
PROGRESS = {"x-headgate-progress": "true"}


async def waiting(start_gateway, endpoint, openai_sdk, eventually):
    """A gateway, the call that runs, and a stream that waits behind it and has heard so."""
    gateway = await start_gateway(endpoint, settings=ROOM_FOR_ONE)
    client = await gateway.connect()
    client.post()
    first = await endpoint.call()
    ask = openai_sdk(gateway).completions.create
    asked = asyncio.create_task(ask(model="m", prompt="one", stream=True, extra_headers=PROGRESS))
    (queue,) = gateway.shell.queues.all()
    await eventually(lambda: queue.held == 1)
    for each in list(gateway.shell.clients.all):
        each.sweep(asyncio.get_running_loop().time() + 1)
    return queue, first, await asked


async def test_the_answer_follows(start_gateway, endpoint, openai_sdk, eventually):
    """Comments are no events."""
    _, first, stream = await waiting(start_gateway, endpoint, openai_sdk, eventually)
    first.answer(b"{}")
    event = b'data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"deep"}]}\n\n'
    body = event + b"data: [DONE]\n\n"
    (await endpoint.call()).answer(body, **{"content-type": "text/event-stream"})
    assert [chunk.choices[0].text async for chunk in stream] == ["deep"]


async def test_a_refusal_is_raised(start_gateway, endpoint, openai_sdk, eventually):
    """As the error of a stream that broke, with the gateway's words."""
    queue, first, stream = await waiting(start_gateway, endpoint, openai_sdk, eventually)
    queue.close(asyncio.get_running_loop().time())
    with pytest.raises(openai.APIError, match="shutting down"):
        [chunk async for chunk in stream]
    first.answer(b"{}")
