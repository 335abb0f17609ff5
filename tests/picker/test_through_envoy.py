"""What a client sees whose requests go through a real Envoy that asks the picker."""

import asyncio
import json
import random
from collections import Counter

import envoy_process
import pytest
import websockets
from envoy_rig import ENVOY
from picker_world import completion, model

from headgate.dataplane.settings import Queue

MIB = 1 << 20
pytestmark = pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: run tools/fetch_envoy.sh")


FORMS = {
    "original destination": None,
    "override host": envoy_process.override_host,
    "override host by metadata": lambda addresses: envoy_process.override_host(addresses, by_metadata=True),
}


@pytest.mark.parametrize("form", FORMS)
async def test_requests_go_where_the_picker_says(rig, form):
    """In each form in which Envoy can be told: 20 requests, each at the endpoint of the decision header."""
    found = await rig(policy=FORMS[form], engines=3)
    seen = Counter()
    for _ in range(20):
        response = await found.ask(x_headgate_explain="1")
        assert response.status_code == 200, response.text
        engine = response.headers["x-engine"]
        assert f"endpoint=default/{engine};" in response.headers["x-headgate-decision"]
        assert response.headers["x-went-into-resp-headers"] == "true"
        seen[engine] += 1
    assert len(seen) == 3
    await found.settled()
    assert sum(load.started for load in found.world.loads) == 20


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "BUFFERED"])
async def test_bodies_of_any_size_arrive_as_they_were_sent(rig, mode):
    """From a few bytes to 20 MB, around the limits of messages, and in uploads that pause anywhere."""
    found = await rig(mode=mode)
    rng = random.Random(3)
    sizes = [60, 1000, 61_999, 62_000, 62_001, 65_535, 65_536, 65_537, 124_000, MIB - 1, MIB + 1, 3 * MIB]
    if mode == "FULL_DUPLEX_STREAMED":
        sizes.append(20 * MIB)
    for size in sizes:
        body = completion(prompt="x" * (size - len(completion(prompt=""))))

        async def upload(body=body):
            cuts = sorted(rng.sample(range(len(body)), 3))
            for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
                yield body[start:end]
                await asyncio.sleep(0.01)

        for content in (body, upload()):
            response = await found.ask(content)
            assert response.status_code == 200, (size, response.text[:200])
            assert response.content == body, size
        for engine in found.engines:
            engine.requests.clear()
    await found.settled()


async def test_models_are_renamed_and_named_back(rig):
    """The engine gets the name of the target, in a body of another length; the client sees its own."""
    found = await rig(model("my-model", a_much_longer_name=1))

    async def serve(body, send):
        named = json.loads(body)["model"]
        content = json.dumps({"id": "1", "model": named, "choices": []}).encode()
        for engine in found.engines:
            engine.last = named
        await found.engines[0].head(send, content_length=str(len(content)))
        await found.engines[0].part(send, content, more=False)

    for engine in found.engines:
        engine.serve = serve
    response = await found.ask()
    assert response.json() == {"id": "1", "model": "my-model", "choices": []}
    assert found.engines[0].last == "a-much-longer-name"


async def test_streams_arrive_event_by_event(rig):
    """The client has the first event before the engine sends the second. Counts are asked for, and the client
    that did not ask does not see them."""
    found = await rig(engines=1)
    (engine,) = found.engines
    goes_on = asyncio.Event()

    async def serve(body, send):
        assert json.loads(body)["stream_options"] == {"include_usage": True}
        await engine.head(send, kind=b"text/event-stream")
        await engine.part(send, b'data: {"choices":[{"text":"a"}]}\n\n', more=True)
        await goes_on.wait()
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":10}}\n\n'
        await engine.part(send, usage + b"data: [DONE]\n\n", more=False)

    engine.serve = serve
    sent = completion(stream=True)
    async with found.http.stream("POST", "/v1/completions", content=sent) as response:
        parts = response.aiter_raw()
        assert await anext(parts) == b'data: {"choices":[{"text":"a"}]}\n\n'
        assert found.in_flight == 1
        goes_on.set()
        assert b"".join([part async for part in parts]) == b"data: [DONE]\n\n"
    await found.settled()
    assert found.world.sample("headgate_gateway_tokens_total", direction="output") == 10


async def test_requests_without_body(rig):
    """GET goes to any endpoint."""
    found = await rig()
    response = await found.http.get("/v1/models")
    assert response.status_code == 200
    assert response.headers["x-engine"] in ("pod-1", "pod-2")


@pytest.mark.parametrize("sends_responses", [True, False])
async def test_websockets_go_by_the_model_in_their_query(rig, sends_responses):
    """And stay open for as long as both sides want."""
    found = await rig(model("talk", talk_lora=1), sends_responses=sends_responses)
    found.world.see((0, 0.1), (0, 0.1, "talk-lora"), max_adapters=1)
    url = found.url.replace("http://", "ws://")
    async with websockets.connect(f"{url}/v1/realtime?model=talk", compression=None) as session:
        for text in ("one", "two" * 50_000):
            await session.send(text)
            assert await session.recv() == text
        assert found.in_flight == 1
    assert found.last == ("/v1/realtime", "model=talk-lora", "pod-2")
    await found.settled()


@pytest.mark.parametrize("phase", ["upload", "waiting", "streaming"])
async def test_clients_that_leave_stop_everything(rig, phase):
    """The engine hears of it, and nothing stays in the books."""
    found = await rig(engines=1)
    (engine,) = found.engines

    async def serve(body, send):
        if phase == "streaming":
            await engine.head(send, kind=b"text/event-stream")
            await engine.part(send, b"data: {}\n\n", more=True)
        await engine.wait_until_left()

    engine.serve = serve
    host, _, port = found.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = completion()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + (body[:10] if phase == "upload" else body))
    if phase == "streaming":
        await reader.readuntil(b"data: {}\n\n")
    elif phase == "waiting":
        async with asyncio.timeout(10):
            while not engine.requests:
                await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(0.2)
    writer.transport.abort()
    await found.settled()
    if phase != "upload":
        async with asyncio.timeout(10):
            await engine.left.wait()


async def test_envoy_retries_within_the_list(rig):
    """The first endpoint refuses connections: Envoy goes on to the second of the list, where the request is
    accounted for, and the first is ejected in time."""
    retries = {"num_retries": 2}
    found = await rig(policy=envoy_process.override_host, choices={"fallbacks": 1}, down={1}, retries=retries)
    for _ in range(30):
        response = await found.ask()
        assert response.status_code == 200
        assert response.headers["x-engine"] == "pod-2"
    await found.settled()
    first, second = found.world.loads
    assert first.failures >= 1
    assert second.started == 30
    assert first.started < 30


async def test_a_request_that_is_refused(rig):
    """The error of the picker is the client's response: 404, 400, and 429 for sheddable requests."""
    queue = Queue(enabled=False, detector="utilization-detector")
    found = await rig(model("known"), model("cheap", "Sheddable"), sections={"queue": queue})
    response = await found.ask(completion("unknown"))
    assert (response.status_code, response.headers["content-type"]) == (404, "text/plain")
    assert response.text.startswith("inference error: NotFound - ")
    assert (await found.ask(b"{")).status_code == 400
    found.world.see((10, 0.9), (10, 0.9))
    response = await found.ask(completion("cheap"))
    assert response.status_code == 429
    assert response.headers["x-llm-d-request-dropped-reason"] == "rejected-saturated"
    assert not any(engine.requests for engine in found.engines)


@pytest.mark.parametrize("fails_open", [True, False])
async def test_without_a_picker(rig, fails_open):
    """FailOpen: Envoy balances by itself; FailClose: an error. With bodies on their way to the picker before
    Envoy knows that it is gone, it could not fail open."""
    found = await rig(policy=envoy_process.override_host, fails_open=fails_open, mode="BUFFERED")
    assert (await found.ask()).status_code == 200
    await found.world.server.close()
    response = await found.ask()
    assert response.status_code == (200 if fails_open else 500)


async def test_running_requests_end_while_the_picker_drains(rig):
    """Its streams end first; after that, the picker is gone."""
    found = await rig(engines=1)
    (engine,) = found.engines
    goes_on = asyncio.Event()

    async def serve(body, send):
        await engine.head(send, kind=b"text/event-stream")
        await engine.part(send, b"data: 1\n\n", more=True)
        await goes_on.wait()
        await engine.part(send, b"data: 2\n\n", more=False)

    engine.serve = serve
    async with found.http.stream("POST", "/v1/completions", content=completion()) as response:
        parts = response.aiter_raw()
        await anext(parts)
        found.world.shell.drain()
        draining = asyncio.create_task(found.world.server.drain(20))
        await asyncio.sleep(0.1)
        assert not draining.done()
        goes_on.set()
        assert b"".join([part async for part in parts]) == b"data: 2\n\n"
    await draining
    await found.settled()
