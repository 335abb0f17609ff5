"""Clients use HTTP/2 over TLS, as ALPN says, with what HTTP/1.1 has."""

import asyncio
import json

import openai
import pytest

from headgate import loop_turns
from headgate.http2 import frames, hpack
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

BODY = json.dumps({"model": "m", "prompt": "hello"})
POST = ("-H", "content-type: application/json", "-d", BODY)
VERSION = ("-w", " %{http_version} %{http_code}")


async def test_curl_uses_http2(start_gateway, start_endpoint, secure):
    """If it offers it."""
    secured = await secure(await start_gateway(await start_endpoint(b"hello")))
    for version, shown in (("--http2", "2"), ("--http1.1", "1.1")):
        code, output = await secured.curl(version, *POST, *VERSION, path="/v1/completions")
        assert (code, output) == (0, f"hello {shown} 200")


async def test_http2_may_be_off(start_gateway, start_endpoint, secure):
    """By a setting."""
    secured = await secure(await start_gateway(await start_endpoint(b"hello")), http2=False)
    assert await secured.curl("--http2", *POST, *VERSION, path="/v1/completions") == (0, "hello 1.1 200")


async def test_requests_of_a_connection_run_beside_each_other(start_gateway, endpoint, secure):
    """And end in any order."""
    secured = await secure(await start_gateway(endpoint))
    again = ("--next", "-sS", "--cacert", str(secured.files.ca), *POST, f"{secured.url}/v1/completions")
    asking = asyncio.create_task(
        secured.curl(
            "--http2", "--parallel", "--parallel-immediate", "--no-progress-meter",
            *POST, f"{secured.url}/v1/completions", *again, *again, path="/v1/completions",
        )
    )  # fmt: skip
    calls = [await endpoint.call() for _ in range(3)]
    for place, call in reversed([*enumerate(calls)]):
        call.answer(b"%d" % place)
    await asyncio.sleep(0)
    while not asking.done():
        try:
            async with asyncio.timeout(0.05):
                (await endpoint.call()).answer(b"3")
        except TimeoutError:
            continue
    code, output = await asking
    assert code == 0
    assert sorted(output) == ["0", "1", "2", "3"]


async def test_openais_sdk_uses_http2(start_gateway, secure):
    """With streams, over one connection."""
    sock = listen("127.0.0.1", 0)
    engine = type("Engine", (), {"port": sock.getsockname()[1]})
    async with running(ServerSettings(engine=PROFILES["fast"].config, models=("m",), drain_s=0), sock):
        secured = await secure(await start_gateway(engine))
        http = openai.DefaultAsyncHttpxClient(verify=secured.context(), http2=True)
        async with openai.AsyncOpenAI(
            base_url=f"{secured.url}/v1", api_key="none", max_retries=0, http_client=http
        ) as sdk:

            async def tell(tokens: int) -> int:
                stream = await sdk.completions.create(model="m", prompt="one", max_tokens=tokens, stream=True)
                assert stream.response.http_version == "HTTP/2"
                return len([chunk async for chunk in stream if chunk.choices and chunk.choices[0].text])

            assert await asyncio.gather(*map(tell, range(1, 20))) == [*range(1, 20)]


async def test_http2_needs_no_tls(start_gateway, start_endpoint, run_program):
    """If the client knows that it is spoken."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    url = f"http://127.0.0.1:{gateway.port}/v1/completions"
    code, output = await run_program("curl", "-sS", "--http2-prior-knowledge", *POST, *VERSION, url)
    assert (code, output) == (0, "hello 2 200")


@pytest.mark.parametrize("is_busy", [False, pytest.param(True, marks=pytest.mark.counts_calls)])
@pytest.mark.parametrize("cuts", [(1,), (2,), (3,), (10,), (16,), (18,), (23,), (1, 2, 17), (24,)])
@pytest.mark.parametrize("size", [0, 6000])
async def test_the_preface_may_arrive_in_pieces(
    start_gateway, start_endpoint, cuts, size, is_busy, monkeypatch
):
    """TCP may cut it anywhere; what follows may be long, and the gateway busy."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    if is_busy:
        has_time = iter([False] * 3)
        monkeypatch.setattr(loop_turns.Turns, "has_time", property(lambda _: next(has_time, True)))
    body = json.dumps({"model": "m", "prompt": "a" * size}).encode()
    sent = frames.PREFACE + frames.frame(frames.SETTINGS, 0, b"")
    head = {b":method": b"POST", b":scheme": b"http", b":path": b"/v1/completions", b":authority": b"g"}
    sent += frames.header_frames(1, hpack.encode(tuple(head.items())), 0)
    sent += frames.frame(frames.DATA, 1, body, frames.END_STREAM)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    begin = 0
    for end in (*cuts, len(sent)):
        writer.write(sent[begin:end])
        await asyncio.sleep(0.01)
        begin = end
    async with asyncio.timeout(10):
        received = b""
        while not received.endswith((b"hello", b"}")) and (more := await reader.read(65536)):
            received += more
    writer.close()
    await writer.wait_closed()
    assert received.endswith(b"hello")


@pytest.mark.parametrize(
    "parts", [(b"PRI * HTTP/2.0\r\n\r\n", b"XX\r\n\r\n"), (b"P", b"RX / HTTP/1.1\r\n\r\n")]
)
async def test_what_only_begins_like_the_preface_is_refused(start_gateway, start_endpoint, parts):
    """As any request that is not valid."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.01)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


@pytest.mark.parametrize("size", [10, 5000, 60_000])
@pytest.mark.parametrize(
    "is_busy", [False, pytest.param(True, marks=pytest.mark.counts_calls)], ids=["idle", "busy"]
)
async def test_however_much_comes_at_first_and_however_busy_the_gateway_is(
    start_gateway, start_endpoint, size, is_busy, monkeypatch
):
    """Clients send the preface, their settings and a request at once."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    if is_busy:
        has_time = iter([False] * 3)
        monkeypatch.setattr(loop_turns.Turns, "has_time", property(lambda _: next(has_time, True)))
    body = json.dumps({"model": "m", "prompt": "a" * size}).encode()
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames.frame(frames.SETTINGS, 0, b"")
    head = {b":method": b"POST", b":scheme": b"http", b":path": b"/v1/completions", b":authority": b"g"}
    sent += frames.header_frames(1, hpack.encode(tuple(head.items())), 0)
    for at in range(0, len(body), 16_000):
        is_last = at + 16_000 >= len(body)
        sent += frames.frame(frames.DATA, 1, body[at : at + 16_000], frames.END_STREAM if is_last else 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(sent)
    async with asyncio.timeout(10):
        received = b""
        while not received.endswith((b"hello", b"}")) and (more := await reader.read(65536)):
            received += more
    writer.close()
    await writer.wait_closed()
    assert received.endswith(b"hello")


async def test_a_body_may_look_like_the_preface_of_http2(start_gateway, start_endpoint):
    """Also one that is read in turns."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    client = await gateway.connect()
    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 6000\r\n\r\n")
    await asyncio.sleep(0.05)
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".ljust(6000))
    assert (await client.response()).status == 400
