"""Anthropic's own client gets the same through the gateway as from the engine, errors included."""

import anthropic
import pytest

ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "How deep is the canal?"}]}
TOOL = {"name": "depth", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
USAGE = {"input_tokens": 5, "output_tokens": 2}
MESSAGE = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
STREAM = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "usage": USAGE, "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "very "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "deep"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
ERRORS = {
    "400 Bad Request": anthropic.BadRequestError,
    "401 Unauthorized": anthropic.AuthenticationError,
    "403 Forbidden": anthropic.PermissionDeniedError,
    "404 Not Found": anthropic.NotFoundError,
    "429 Too Many Requests": anthropic.RateLimitError,
    "500 Internal Server Error": anthropic.InternalServerError,
    "529 Overloaded": anthropic.OverloadedError,
}


async def test_message(start_gateway, start_endpoint, anthropic_sdk, says):
    """A whole answer, and its tokens in the gateway's count."""
    content = [{"type": "text", "text": "very deep"}]
    endpoint = await start_endpoint(behave=says({**MESSAGE, "content": content, "usage": USAGE}))
    gateway = await start_gateway(endpoint)
    answer = await anthropic_sdk(gateway).messages.create(**ASKED)
    assert (answer.content[0].text, answer.usage.output_tokens) == ("very deep", 2)
    assert endpoint.calls[0].target == "/v1/messages"


async def test_stream(start_gateway, start_endpoint, anthropic_sdk, streams):
    """The SDK puts the events together to a message."""
    endpoint = await start_endpoint(behave=streams(*STREAM, name=True))
    sdk = anthropic_sdk(await start_gateway(endpoint))
    async with sdk.messages.stream(**ASKED) as stream:
        assert [text async for text in stream.text_stream] == ["very ", "deep"]
        message = await stream.get_final_message()
    assert (message.content[0].text, message.stop_reason) == ("very deep", "end_turn")


async def test_tools(start_gateway, start_endpoint, anthropic_sdk, says):
    """Tools reach the engine as they were given, and its use of them comes back."""
    use = {"type": "tool_use", "id": "t", "name": "depth", "input": {"at": "noon"}}
    endpoint = await start_endpoint(behave=says({**MESSAGE, "content": [use], "usage": USAGE}))
    sdk = anthropic_sdk(await start_gateway(endpoint))
    answer = await sdk.messages.create(**ASKED, tools=[TOOL])
    assert answer.content[0].input == {"at": "noon"}
    assert endpoint.calls[0].json["tools"] == [TOOL]


async def test_count_of_tokens(start_gateway, start_endpoint, anthropic_sdk, says):
    """Its other paths pass as well."""
    sdk = anthropic_sdk(await start_gateway(await start_endpoint(behave=says({"input_tokens": 6}))))
    count = await sdk.messages.count_tokens(model="m", messages=ASKED["messages"])
    assert count.input_tokens == 6


@pytest.mark.parametrize(("status", "error"), ERRORS.items(), ids=ERRORS)
async def test_errors_of_the_engine(start_gateway, start_endpoint, anthropic_sdk, says, status, error):
    """Each status raises the SDK's own exception, with the engine's words."""
    told = {"type": "error", "error": {"type": "t", "message": "the engine says no"}}
    sdk = anthropic_sdk(await start_gateway(await start_endpoint(behave=says(told, status))))
    with pytest.raises(error, match="the engine says no"):
        await sdk.messages.create(**ASKED)


async def test_errors_of_the_gateway(start_gateway, start_endpoint, anthropic_sdk):
    """They have Anthropic's form on its paths."""
    dead = await start_endpoint()
    await dead.stop()
    sdk = anthropic_sdk(await start_gateway(dead, settings={"clients_max_body_bytes": 2000}))
    with pytest.raises(anthropic.NotFoundError) as unknown:
        await sdk.messages.create(**{**ASKED, "model": "unknown"})
    assert unknown.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.RequestTooLargeError):
        await sdk.messages.create(**ASKED, system="x" * 3000)
    with pytest.raises(anthropic.ServiceUnavailableError) as unreached:
        await sdk.messages.create(**ASKED)
    assert unreached.value.body["error"]["type"] == "overloaded_error"


async def test_stream_that_breaks_off(start_gateway, start_endpoint, anthropic_sdk, streams):
    """What came is given, then the exception with our words."""
    endpoint = await start_endpoint(behave=streams(*STREAM[:3], name=True, ends=False))
    sdk = anthropic_sdk(await start_gateway(endpoint))
    stream = await sdk.messages.create(**ASKED, stream=True)
    assert [(await anext(stream)).type for _ in range(3)] == [event["type"] for event in STREAM[:3]]
    with pytest.raises(anthropic.APIStatusError, match="broke off"):
        await anext(stream)
