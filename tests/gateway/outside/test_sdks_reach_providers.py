"""OpenAI's and Anthropic's own clients, when a provider takes over: whole, streamed, and refused."""

import json

import anthropic
import openai
import pytest
import uvloop

CHAT = {"model": "big", "messages": [{"role": "user", "content": "How deep?"}], "max_tokens": 8}
TEXT = "Two meters."


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


def _events(call, *events):
    data = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        if "type" in event
        else b"data: %b\n\n" % json.dumps(event).encode()
        for event in events
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    call.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))


def as_openai(call):
    """Answers like the API of OpenAI."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    made = {"id": "c", "created": 1, "model": "mini-2026-01-01"}
    if not call.json.get("stream"):
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}
        body = made | {"object": "chat.completion", "choices": [choice], "usage": usage}
        call.answer(json.dumps(body).encode(), **{"content-type": "application/json"})
        return
    chunk = made | {"object": "chat.completion.chunk"}
    words = [{"index": 0, "delta": {"content": text}} for text in ("Two ", "meters.")]
    last = chunk | {"choices": [], "usage": usage}
    _events(call, *(chunk | {"choices": [word]} for word in words), last)


def as_anthropic(call):
    """Answers like the API of Anthropic."""
    usage = {"input_tokens": 7, "output_tokens": 3}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "mini",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    if not call.json.get("stream"):
        call.answer(json.dumps(message).encode(), **{"content-type": "application/json"})
        return
    _events(
        call,
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


@pytest.fixture
async def openai_client():
    made = []

    def of(gateway):
        plain = openai.DefaultAsyncHttpxClient(verify=False)
        url = f"http://127.0.0.1:{gateway.port}/v1"
        made.append(openai.AsyncOpenAI(base_url=url, api_key="client", max_retries=0, http_client=plain))
        return made[-1]

    yield of
    for client in made:
        await client.close()


@pytest.fixture
async def anthropic_client():
    made = []

    def of(gateway):
        plain = anthropic.DefaultAsyncHttpxClient(verify=False)
        url = f"http://127.0.0.1:{gateway.port}"
        made.append(
            anthropic.AsyncAnthropic(base_url=url, api_key="client", max_retries=0, http_client=plain)
        )
        return made[-1]

    yield of
    for client in made:
        await client.close()


async def test_openais(outside, openai_client):
    """The SDK's own key stays here, as do all headers that it adds."""
    cloud = await outside.provider(as_openai)
    gateway = await outside.gateway(cloud)
    sdk = openai_client(gateway)
    raw = await sdk.chat.completions.with_raw_response.create(**CHAT)
    assert raw.headers["x-headgate-model"] == "cloud/mini"
    whole = raw.parse()
    assert (whole.model, whole.choices[0].message.content) == ("mini-2026-01-01", TEXT)
    chunks = [chunk async for chunk in await sdk.chat.completions.create(**CHAT, stream=True)]
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == TEXT
    for call in cloud.calls:
        assert "client" not in str(call.headers)
        assert not [name for name, _ in call.headers if name.startswith("x-stainless")]


async def test_anthropics(outside, anthropic_client):
    cloud = await outside.provider(as_anthropic)
    gateway = await outside.gateway(cloud, shape="anthropic")
    sdk = anthropic_client(gateway)
    whole = await sdk.messages.create(**CHAT)
    assert (whole.content[0].text, whole.usage.output_tokens) == (TEXT, 3)
    async with sdk.messages.stream(**CHAT) as stream:
        assert (await stream.get_final_message()).content[0].text == TEXT
    version = sdk.default_headers["anthropic-version"]
    assert {call.header("anthropic-version") for call in cloud.calls} == {version}
    assert "client" not in str([call.headers for call in cloud.calls])
    await gateway.idle()
    assert gateway.metric("headgate_gateway_tokens_total", model="cloud/mini", direction="output") == 6


async def test_refusals_are_their_own_errors(outside, openai_client, anthropic_client):
    """A client can tell a provider that is busy from one that is broken, in either API."""

    def busy(call):
        call.answer(b"{}", "429 Status", **{"retry-after": "9"})

    gateway = await outside.gateway(await outside.provider(busy))
    with pytest.raises(openai.RateLimitError) as raised:
        await openai_client(gateway).chat.completions.create(**CHAT)
    assert (raised.value.code, raised.value.response.headers["retry-after"]) == ("provider_saturated", "9")
    gateway = await outside.gateway(
        await outside.provider(lambda call: call.answer(b"{}", "401 Status")), shape="anthropic"
    )
    with pytest.raises(anthropic.InternalServerError) as raised:
        await anthropic_client(gateway).messages.create(**CHAT)
    assert "rejected the gateway's key" in raised.value.message
