"""OpenAI's own client gets the same through the gateway as from the engine, errors included."""

import json

import openai
import pytest

from headgate import routing

QUESTION = [{"role": "user", "content": "How deep is the canal?"}]
TOOL = {
    "type": "function",
    "function": {"name": "depth", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}
ERRORS = {
    "400 Bad Request": openai.BadRequestError,
    "401 Unauthorized": openai.AuthenticationError,
    "403 Forbidden": openai.PermissionDeniedError,
    "404 Not Found": openai.NotFoundError,
    "409 Conflict": openai.ConflictError,
    "422 Unprocessable Entity": openai.UnprocessableEntityError,
    "429 Too Many Requests": openai.RateLimitError,
    "500 Internal Server Error": openai.InternalServerError,
    "503 Service Unavailable": openai.InternalServerError,
}


def delta(**parts):
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": parts}]}


async def test_chat_with_an_engine(start_gateway, simulator, openai_sdk):
    """A whole answer and a stream say the same, and the stream has its usage, since that was asked for."""
    sdk = openai_sdk(await start_gateway(simulator))
    asked = {"model": "m", "messages": QUESTION, "max_tokens": 20}
    whole = await sdk.chat.completions.create(**asked)
    stream = await sdk.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens == 20


async def test_stream_without_usage(start_gateway, simulator, openai_sdk):
    """Who did not ask for usage does not get it, though the gateway did ask, and counts."""
    gateway = await start_gateway(simulator)
    stream = await openai_sdk(gateway).completions.create(model="m", prompt="one", max_tokens=5, stream=True)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 5


async def test_models(start_gateway, simulator, openai_sdk):
    """The list of models is the gateway's."""
    sdk = openai_sdk(await start_gateway(simulator))
    assert "m" in [model.id async for model in sdk.models.list()]
    assert (await sdk.models.retrieve("m")).id == "m"


async def test_tools(start_gateway, start_endpoint, openai_sdk, says):
    """Tools reach the engine as they were given, and its calls come back."""
    call = {"id": "1", "type": "function", "function": {"name": "depth", "arguments": '{"at":"noon"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    endpoint = await start_endpoint(
        behave=says({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
    )
    sdk = openai_sdk(await start_gateway(endpoint))
    answer = await sdk.chat.completions.create(model="m", messages=QUESTION, tools=[TOOL])
    (made,) = answer.choices[0].message.tool_calls
    assert (made.function.name, json.loads(made.function.arguments)) == ("depth", {"at": "noon"})
    assert endpoint.calls[0].json["tools"] == [TOOL]


async def test_streamed_tools(start_gateway, start_endpoint, openai_sdk, streams):
    """The pieces of a call's arguments add up."""
    pieces = ['{"at"', ':"no', 'on"}']
    events = [
        delta(tool_calls=[{"index": 0, "function": {"name": "depth", "arguments": piece}}])
        for piece in pieces
    ]
    sdk = openai_sdk(await start_gateway(await start_endpoint(behave=streams(*events, "[DONE]"))))
    stream = await sdk.chat.completions.create(model="m", messages=QUESTION, tools=[TOOL], stream=True)
    got = [chunk.choices[0].delta.tool_calls[0].function.arguments async for chunk in stream]
    assert "".join(got) == "".join(pieces)


async def test_embeddings(start_gateway, start_endpoint, openai_sdk, says):
    """Vectors come back, in the encoding that the SDK asks for by itself."""
    data = [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    endpoint = await start_endpoint(
        behave=says({"object": "list", "model": "m", "data": data, "usage": usage})
    )
    gateway = await start_gateway(endpoint)
    answer = await openai_sdk(gateway).embeddings.create(model="m", input="one two")
    assert answer.data[0].embedding == [1.0, 2.0]
    assert endpoint.calls[0].target == "/v1/embeddings"
    assert gateway.metric("headgate_gateway_tokens_total", direction="input") == 2


async def test_responses(start_gateway, start_endpoint, openai_sdk, streams):
    """Streams of the responses API keep their events, and a broken one ends with its error event."""
    created = {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0}
    event = {**created, "delta": "deep", "sequence_number": 1, "logprobs": []}
    endpoint = await start_endpoint(behave=streams(event, name=True, ends=False))
    sdk = openai_sdk(await start_gateway(endpoint))
    stream = await sdk.responses.create(model="m", input="How deep?", stream=True)
    assert (await anext(stream)).delta == "deep"
    error = await anext(stream)
    assert (error.type, error.code) == ("error", "upstream_lost")
    assert "broke off" in error.message


@pytest.mark.parametrize(("status", "error"), ERRORS.items(), ids=ERRORS)
async def test_errors_of_the_engine(start_gateway, start_endpoint, openai_sdk, says, status, error):
    """Each status raises the SDK's own exception, with the engine's words."""
    told = {"error": {"message": "the engine says no", "type": "t", "param": "p", "code": "c"}}
    sdk = openai_sdk(await start_gateway(await start_endpoint(behave=says(told, status))))
    with pytest.raises(error, match="the engine says no") as raised:
        await sdk.chat.completions.create(model="m", messages=QUESTION)
    assert (raised.value.code, raised.value.param, raised.value.type) == ("c", "p", "t")


async def test_errors_of_the_gateway(start_gateway, start_endpoint, openai_sdk):
    """An unknown model, a body that is too long, and no endpoint are three exceptions."""
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead, settings={"clients_max_body_bytes": 2000})
    sdk = openai_sdk(gateway)
    with pytest.raises(openai.NotFoundError) as unknown:
        await sdk.chat.completions.create(model="unknown", messages=QUESTION)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.APIStatusError) as long:
        await sdk.completions.create(model="m", prompt="x" * 3000)
    assert (long.value.status_code, long.value.code) == (413, "body_too_large")
    with pytest.raises(openai.InternalServerError) as unreached:
        await sdk.completions.create(model="m", prompt="x")
    assert (unreached.value.status_code, unreached.value.code) == (503, "endpoint_unreachable")
    assert unreached.value.response.headers["retry-after"] == "1"


async def test_answers_that_break_off(start_gateway, start_endpoint, openai_sdk, streams):
    """Amid a stream it is an APIError with the reason, amid a document a lost connection."""
    endpoint = await start_endpoint(behave=streams(delta(content="a"), ends=False))
    sdk = openai_sdk(await start_gateway(endpoint))
    stream = await sdk.chat.completions.create(model="m", messages=QUESTION, stream=True)
    assert (await anext(stream)).choices[0].delta.content == "a"
    with pytest.raises(openai.APIError, match="broke off") as broken:
        await anext(stream)
    assert broken.value.code == "upstream_lost"

    def half(call):
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        call.write(b"half")
        call.close()

    endpoint.behave = half
    with pytest.raises(openai.APIConnectionError):
        await sdk.chat.completions.create(model="m", messages=QUESTION)


async def test_time_that_is_up(start_gateway, endpoint, openai_sdk):
    """An endpoint that hangs is a 504, which the SDK tries again if it may."""
    sdk = openai_sdk(await start_gateway(endpoint, timeout_s=0.05))
    with pytest.raises(openai.InternalServerError) as raised:
        await sdk.completions.create(model="m", prompt="x")
    assert (raised.value.status_code, raised.value.code) == (504, "upstream_timeout")


async def test_limits_are_obeyed(start_gateway, start_endpoint, openai_sdk, says):
    """The SDK reads what is left, and does not send again what can never pass."""
    limits = routing.TokenLimits(input=20, unit="month", unit_s=30 * 86_400)
    usage = {"prompt_tokens": 15, "completion_tokens": 1, "total_tokens": 16}
    endpoint = await start_endpoint(behave=says({"id": "c", "object": "x", "choices": [], "usage": usage}))
    gateway = await start_gateway(endpoint, limits=limits)
    sdk = openai_sdk(gateway).with_options(max_retries=2)
    raw = await sdk.completions.with_raw_response.create(model="m", prompt="How deep is the canal?")
    assert raw.headers["x-ratelimit-limit-tokens"] == "20"
    with pytest.raises(openai.RateLimitError) as refused:
        await sdk.completions.create(model="m", prompt="How deep is it? " * 20)
    assert (refused.value.type, refused.value.code) == ("tokens", "rate_limit_exceeded")
    assert "it can never pass" in refused.value.message
    assert len(endpoint.calls) == 1
    assert gateway.metric("headgate_gateway_requests_total", code="429") == 1
