"""A stream that breaks upstream ends with an error event, never silently or with a second stream."""

import json

import anthropic
import openai
import pytest

from headgate.dataplane.rewriting.events import EventStream

pytestmark = pytest.mark.every_loop

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
STREAM = {"model": "m", "stream": True}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CODED = HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(EVENT)


@pytest.mark.parametrize(
    "partial", [b"", b"2", b"26\r\n", chunk(b'data: {"cho'), chunk(EVENT)[:-2], chunk(EVENT)[:30]]
)
async def test_whole_events_pass_and_an_error_is_the_last(gateway, endpoint, partial):
    """Wherever the endpoint breaks off, the client sees whole events, a reason, and the end of the answer."""
    client = await gateway.connect()
    client.post(STREAM)
    call = await endpoint.call()
    call.write(CODED + partial)
    response = await client.head()
    call.close()
    response = await client.read_body(response)
    assert response.body.startswith(EVENT)
    *_, last, nothing = response.body.split(b"\n\n")
    assert nothing == b""
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "upstream_lost"
    assert "broke off" in error["message"]
    assert await client.is_closed()
    await gateway.idle()
    assert "outcome=upstream_lost" in gateway.log_lines()[0]


async def test_a_stream_that_is_not_http_any_more_ends_with_an_error(gateway, endpoint):
    """A bad chunk size is not passed on."""
    client = await gateway.connect()
    client.post(STREAM)
    call = await endpoint.call()
    call.write(CODED)
    response = await client.head()
    call.write(b"zz\r\n")
    response = await client.read_body(response)
    assert b'"upstream_invalid"' in response.body


async def test_silence_ends_with_an_error(start_gateway, start_endpoint):
    """An endpoint that sends nothing for too long is given up, and the client is told."""
    endpoint = await start_endpoint()
    gateway = await start_gateway(endpoint, settings={"endpoints_stream_idle_timeout_s": 0.01})
    client = await gateway.connect()
    client.post(STREAM)
    (await endpoint.call()).write(CODED)
    response = await client.read_body(await client.head())
    assert b'"idle_timeout"' in response.body


@pytest.mark.parametrize(
    ("path", "begins", "kind"),
    [("/v1/messages", b"event: error\n", "error"), ("/v1/responses", b"event: error\n", "error")],
)
async def test_the_error_is_in_the_clients_dialect(gateway, endpoint, path, begins, kind):
    """Anthropic's and the responses API name the event, and have forms of their own."""
    client = await gateway.connect()
    client.post(STREAM, path)
    call = await endpoint.call()
    call.write(CODED)
    response = await client.head()
    call.close()
    response = await client.read_body(response)
    last = response.body.removeprefix(EVENT)
    assert last.startswith(begins)
    assert json.loads(last.partition(b"data: ")[2])["type"] == kind


async def test_openais_client_raises(gateway, endpoint):
    """The SDK gives what came, then its exception with our words."""
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{gateway.port}/v1",
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    ) as client:
        endpoint.behave = lambda call: (call.write(CODED), call.close())
        stream = await client.chat.completions.create(model="m", messages=[], stream=True)
        assert (await anext(stream)).choices[0].delta.content == "a"
        with pytest.raises(openai.APIError, match="broke off"):
            await anext(stream)


async def test_anthropics_client_raises(gateway, endpoint):
    """Its SDK knows the event by its name."""
    async with anthropic.AsyncAnthropic(
        base_url=f"http://127.0.0.1:{gateway.port}",
        api_key="none",
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=False),
    ) as client:
        endpoint.behave = lambda call: (
            call.write(HEAD + b"transfer-encoding: chunked\r\n\r\n"),
            call.write(chunk(b'event: ping\ndata: {"type":"ping"}\n\n')),
            call.close(),
        )
        stream = await client.messages.create(model="m", max_tokens=1, messages=[], stream=True)
        with pytest.raises(anthropic.APIError, match="broke off"):
            await anext(stream)


def test_a_very_long_event_cannot_be_ended():
    """Part of it is with the client already: an error would look like the rest of it."""
    stream = EventStream(is_chunked=True, takes_usage=False)
    stream.feed(chunk(b"x" * 100_000))
    assert stream.cut_off(b"data: error\n\n") is None
