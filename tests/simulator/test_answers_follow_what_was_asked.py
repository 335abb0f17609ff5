"""Stop strings, log probabilities, tools, schemas: through OpenAI's own client."""

import json

import jsonschema
import openai
import pytest

QUESTION = [{"role": "user", "content": "How deep is the canal?"}]
PARAMETERS = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "enum": ["lock", "weir"]},
        "depth": {"type": "integer", "minimum": 2, "maximum": 9},
        "days": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        "note": {"type": "string"},
    },
    "required": ["place", "depth", "days"],
}
TOOLS = [
    {"type": "function", "function": {"name": "measure", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "wait"}},
]
MEASURE = {"type": "function", "function": {"name": "measure"}}


@pytest.fixture
async def sdk_of():
    """Makes OpenAI's client of a server."""
    clients = []

    def make(server):
        plain = openai.DefaultAsyncHttpxClient(verify=False)
        url = f"{server.url}/v1"
        clients.append(openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=plain))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


async def both_ways(sdk, **asked):
    """An answer that is not streamed, and the choices of all events of the same as a stream."""
    whole = await sdk.chat.completions.create(model="tiny", messages=QUESTION, **asked)
    stream = await sdk.chat.completions.create(model="tiny", messages=QUESTION, stream=True, **asked)
    return whole.choices[0], [chunk.choices[0] async for chunk in stream]


async def test_a_stop_string_ends_the_answer_before_it(serve, sdk_of):
    """Text up to it, finish reason stop, and vLLM's stop_reason, streamed or not."""
    async with serve() as server:
        sdk = sdk_of(server)
        full, _ = await both_ways(sdk, max_tokens=30)
        stop = full.message.content[21:24]
        whole, chunks = await both_ways(sdk, max_tokens=30, stop=["never said", stop])
    assert whole.message.content == full.message.content[: full.message.content.index(stop)]
    assert (whole.finish_reason, whole.stop_reason) == ("stop", stop)
    assert "".join(chunk.delta.content or "" for chunk in chunks) == whole.message.content
    assert chunks[-1].finish_reason == "stop"


async def test_min_tokens_outlast_a_stop_string(serve, sdk_of):
    """A stop string counts only after the tokens that there must be."""
    async with serve() as server:
        sdk = sdk_of(server)
        whole, _ = await both_ways(sdk, max_tokens=30, stop=" ", extra_body={"min_tokens": 20})
    assert len(whole.message.content) >= 80


async def test_log_probabilities_of_a_chat(serve, sdk_of):
    """One entry for each token, with as many alternatives as asked for, the token itself first."""
    async with serve() as server:
        whole, chunks = await both_ways(sdk_of(server), max_tokens=5, logprobs=True, top_logprobs=3)
    assert "".join(entry.token for entry in whole.logprobs.content) == whole.message.content
    assert [len(entry.top_logprobs) for entry in whole.logprobs.content] == [3] * 5
    assert all(entry.top_logprobs[0].token == entry.token for entry in whole.logprobs.content)
    streamed = [entry for chunk in chunks if chunk.logprobs for entry in chunk.logprobs.content]
    assert streamed == whole.logprobs.content


async def test_log_probabilities_of_a_completion(serve, sdk_of):
    """Tokens with their offsets in the text."""
    async with serve() as server:
        answer = await sdk_of(server).completions.create(model="tiny", prompt="x", max_tokens=4, logprobs=2)
    choice = answer.choices[0]
    for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)
    assert [len(top) for top in choice.logprobs.top_logprobs] == [2] * 4


@pytest.mark.parametrize("choice", ["required", MEASURE])
async def test_a_tool_is_called_with_arguments_of_its_schema(serve, sdk_of, choice):
    """The calls of a stream add up to those of the whole answer, and each fits its schema."""
    async with serve() as server:
        whole, chunks = await both_ways(sdk_of(server), tools=TOOLS, tool_choice=choice, seed=3)
    assert whole.finish_reason == chunks[-1].finish_reason == "tool_calls"
    assert whole.message.content is None
    told = {}
    for delta in (call for chunk in chunks for call in chunk.delta.tool_calls or ()):
        if delta.id:
            told[delta.index] = [delta.id, delta.function.name, ""]
        told[delta.index][2] += delta.function.arguments
    assert list(told.values()) == [
        [call.id, call.function.name, call.function.arguments] for call in whole.message.tool_calls
    ]
    for call in whole.message.tool_calls:
        if call.function.name == "measure":
            jsonschema.validate(json.loads(call.function.arguments), PARAMETERS)
    if choice is MEASURE:
        assert {call.function.name for call in whole.message.tool_calls} == {"measure"}


async def test_tools_may_be_left_alone(serve, sdk_of):
    """With auto some answers call and some speak; with none all speak."""
    async with serve() as server:
        sdk = sdk_of(server)
        reasons = set()
        for seed in range(12):
            asked = {"model": "tiny", "messages": QUESTION, "tools": TOOLS, "seed": seed}
            reasons.add((await sdk.chat.completions.create(**asked)).choices[0].finish_reason)
            spoken = await sdk.chat.completions.create(**asked, tool_choice="none")
            assert spoken.choices[0].message.content
    assert reasons == {"stop", "tool_calls"}


async def test_one_call_where_parallel_calls_are_not_wanted(serve, sdk_of):
    """parallel_tool_calls=false never gives two."""
    async with serve() as server:
        sdk = sdk_of(server)
        for seed in range(8):
            answer = await sdk.chat.completions.create(
                model="tiny",
                messages=QUESTION,
                tools=TOOLS,
                tool_choice="required",
                parallel_tool_calls=False,
                seed=seed,
            )
            assert len(answer.choices[0].message.tool_calls) == 1


@pytest.mark.parametrize("choice", ["sometimes", {"type": "function", "function": {"name": "none"}}])
async def test_a_choice_of_no_tool_is_refused(serve, sdk_of, choice):
    """A 400 that names tool_choice."""
    async with serve() as server:
        with pytest.raises(openai.BadRequestError) as refused:
            await sdk_of(server).chat.completions.create(
                model="tiny", messages=QUESTION, tools=TOOLS, tool_choice=choice
            )
    assert refused.value.param == "tool_choice"


async def test_an_answer_fits_its_schema(serve, sdk_of):
    """response_format with a JSON schema."""
    wanted = {"type": "json_schema", "json_schema": {"name": "depths", "schema": PARAMETERS}}
    async with serve() as server:
        whole, chunks = await both_ways(sdk_of(server), response_format=wanted)
    jsonschema.validate(json.loads(whole.message.content), PARAMETERS)
    assert "".join(chunk.delta.content or "" for chunk in chunks) == whole.message.content


async def test_images_are_part_of_the_prompt(serve, sdk_of):
    """Each counts the same; another image is another prompt for the cache."""

    async def ask(url):
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
        messages = [{"role": "user", "content": parts}]
        usage = (await sdk.chat.completions.create(model="tiny", messages=messages, max_tokens=1)).usage
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

    async with serve() as server:
        sdk = sdk_of(server)
        assert [await ask(url) for url in ("http://a/1", "http://a/2", "http://a/1")] == [
            (259, 0),
            (259, 0),
            (259, 256),
        ]
