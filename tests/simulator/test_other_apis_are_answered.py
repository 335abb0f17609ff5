"""OpenAI's Responses and Anthropic's Messages, through their own clients."""

import json

import anthropic
import openai
import pytest

TOOL = {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}
FUNCTION = {"type": "function", "name": "measure", "parameters": TOOL, "strict": False}


@pytest.fixture
async def clients(serve):
    """A server with the clients of both."""
    async with (
        serve() as server,
        openai.AsyncOpenAI(
            base_url=f"{server.url}/v1",
            api_key="none",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=False),
        ) as one,
        anthropic.AsyncAnthropic(
            base_url=server.url,
            api_key="none",
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=False),
        ) as other,
    ):
        yield one, other


@pytest.fixture
async def sdk(clients):
    return clients[0]


@pytest.fixture
async def claude(clients):
    return clients[1]


async def test_a_response(sdk):
    """Text, status and usage; a limit makes it incomplete."""
    answer = await sdk.responses.create(model="tiny", input="How deep?", instructions="Be brief.")
    assert (answer.status, len(answer.output_text.split())) == ("completed", 63)
    cut = await sdk.responses.create(model="tiny", input="How deep?", max_output_tokens=5)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (cut.usage.output_tokens, cut.usage.input_tokens) == (5, 3)


async def test_the_events_of_a_response_come_in_order(sdk):
    """Numbered without a gap; the deltas add up; the last event has the whole response."""
    stream = await sdk.responses.create(model="tiny", input="How deep?", stream=True)
    events = [event async for event in stream]
    kinds = [event.type.removeprefix("response.") for event in events]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert [kind for kind in kinds if kind != "output_text.delta"] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == text
    assert events[-1].response.usage.output_tokens == 64


async def test_a_response_has_log_probabilities_if_it_is_to(sdk):
    """Whole and streamed, for each token as much as is asked for."""
    asked = {"model": "tiny", "input": "How deep?", "max_output_tokens": 4, "top_logprobs": 2}
    wanted = asked | {"include": ["message.output_text.logprobs"]}
    answer = await sdk.responses.create(**wanted)
    told = answer.output[0].content[0].logprobs
    assert "".join(each.token for each in told) == answer.output_text
    assert [len(each.top_logprobs) for each in told] == [2, 2, 2, 2]
    events = [event async for event in await sdk.responses.create(**wanted, stream=True)]
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert [event.logprobs[0].token for event in deltas] == [event.delta for event in deltas]
    without = await sdk.responses.create(**asked)
    assert without.output[0].content[0].logprobs == []


async def test_a_response_calls_a_function_once(sdk):
    """As item and as events; its output is part of the next input."""
    asked = {"model": "tiny", "input": "How deep?", "tools": [FUNCTION], "tool_choice": "required"}
    answer = await sdk.responses.create(**asked)
    [call] = answer.output
    assert (call.type, call.name, list(json.loads(call.arguments))) == ("function_call", "measure", ["depth"])
    events = [event async for event in await sdk.responses.create(**asked, stream=True)]
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[2] == "output_item.added"
    assert kinds[-3:] == ["function_call_arguments.done", "output_item.done", "completed"]
    told = "".join(event.delta for event in events if event.type.endswith("arguments.delta"))
    assert told == call.arguments
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "3 m"}
    more = await sdk.responses.create(model="tiny", input=[call.model_dump(exclude_none=True), output])
    assert more.status == "completed"


async def test_a_message(claude):
    """Text, stop reason and usage in Anthropic's words."""
    answer = await claude.messages.create(
        model="tiny", max_tokens=6, system="Be brief.", messages=[{"role": "user", "content": "How deep?"}]
    )
    assert (len(answer.content[0].text.split()), answer.stop_reason) == (6, "max_tokens")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (6, 6)


async def test_a_streamed_message_says_the_same(claude):
    """The client's own accumulator makes the same message of the events."""
    asked = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "How deep?"}]}
    whole = await claude.messages.create(**asked)
    async with claude.messages.stream(**asked) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert final.content[0].text == whole.content[0].text
    assert final.usage.output_tokens == 9
    assert final.stop_reason == "max_tokens"


async def test_a_message_uses_tools(claude):
    """Blocks of tool use with their input, streamed or not; results go into the next prompt."""
    asked = {
        "model": "tiny",
        "max_tokens": 200,
        "messages": [{"role": "user", "content": "How deep?"}],
        "tools": [{"name": "measure", "input_schema": TOOL}],
        "tool_choice": {"type": "any"},
    }
    whole = await claude.messages.create(**asked)
    assert whole.stop_reason in ("tool_use", "max_tokens")
    assert {block.name for block in whole.content} == {"measure"}
    assert list(whole.content[0].input) == ["depth"]
    async with claude.messages.stream(**asked) as stream:
        final = await stream.get_final_message()
    assert [block.input for block in final.content] == [block.input for block in whole.content]
    result = {"type": "tool_result", "tool_use_id": whole.content[0].id, "content": "3 m"}
    turns = [
        *asked["messages"],
        {"role": "assistant", "content": [block.model_dump() for block in whole.content]},
        {"role": "user", "content": [result]},
    ]
    assert (await claude.messages.create(model="tiny", max_tokens=5, messages=turns)).usage.output_tokens == 5


async def test_stop_sequences_end_a_message(claude):
    """stop_reason and stop_sequence say which."""
    asked = {"model": "tiny", "max_tokens": 30, "messages": [{"role": "user", "content": "How deep?"}]}
    word = (await claude.messages.create(**asked)).content[0].text.split()[5]
    answer = await claude.messages.create(**asked, stop_sequences=[f" {word}"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", f" {word}")


async def test_tokens_of_a_message_are_counted(claude):
    """As its usage has them."""
    messages = [{"role": "user", "content": "How deep is it?"}]
    counted = await claude.messages.count_tokens(model="tiny", messages=messages)
    answer = await claude.messages.create(model="tiny", max_tokens=1, messages=messages)
    assert counted.input_tokens == answer.usage.input_tokens == 4


async def test_errors_of_messages_have_anthropics_shape(claude):
    """An unknown model and a missing limit raise what the client knows."""
    messages = [{"role": "user", "content": "How deep?"}]
    with pytest.raises(anthropic.NotFoundError, match="does not exist") as missing:
        await claude.messages.create(model="huge", max_tokens=1, messages=messages)
    assert missing.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        await claude.messages.create(model="tiny", max_tokens=1, messages=[])


async def test_an_engine_sleeps_and_wakes(serve):
    """Asleep it answers 503 and has forgotten its cache; without sleep mode nothing happens."""
    body = {"model": "tiny", "prompt": list(range(64)), "max_tokens": 1}
    for mode in (True, False):
        async with serve(sleep_mode=mode) as server:
            await server.client.post("/v1/completions", json=body)
            assert (await server.client.post("/sleep")).status_code == 200
            assert (await server.client.get("/is_sleeping")).json() == {"is_sleeping": mode}
            asked = await server.client.post("/v1/completions", json=body)
            assert asked.status_code == (503 if mode else 200)
            await server.client.post("/wake_up")
            again = (await server.client.post("/v1/completions", json=body)).json()
            cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert cached == (0 if mode else 48)


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/ping", "/version", "/load"])
async def test_probes_are_answered(serve, path):
    """Whatever asks whether it lives gets a 200."""
    async with serve() as server:
        assert (await server.client.get(path)).status_code == 200
