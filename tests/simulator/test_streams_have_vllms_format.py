import json

from headgate.simulator.model import PROFILES

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
TEXT = {"model": "tiny", "prompt": "Hello", "stream": True}


async def events(server, path, body):
    """The data of each event of a stream, JSON decoded but for the last."""
    response = await server.client.post(path, json=body)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.text.endswith("\n\n")
    lines = response.text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_a_chat_stream_starts_with_the_role_and_ends_with_the_reason(serve):
    """Role, one event for each token, the reason on the last token's event, [DONE]."""
    async with serve() as server:
        chunks = await events(server, "/v1/chat/completions", CHAT | {"max_tokens": 3})
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [bool(choice["delta"]["content"]) for choice in choices[1:]] == [True] * 3
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]


async def test_an_answer_that_ends_by_itself_ends_with_an_empty_token(serve):
    """Without a limit the answer has its default length; its last token, the end of sequence, has no text."""
    async with serve(max_tokens_default=4) as server:
        chunks = await events(server, "/v1/chat/completions", CHAT)
        whole = (await server.client.post("/v1/chat/completions", json=CHAT | {"stream": False})).json()
    choices = [chunk["choices"][0] for chunk in chunks]
    assert (choices[-1]["delta"], choices[-1]["finish_reason"]) == ({"content": ""}, "stop")
    text = "".join(choice["delta"]["content"] for choice in choices)
    assert whole["choices"][0]["message"]["content"] == text
    assert len(text.split()) == 3
    assert whole["usage"]["completion_tokens"] == 4


async def test_usage_comes_in_an_event_without_choices(serve):
    """Only if asked for, and as the last event before [DONE]."""
    asked = TEXT | {"max_tokens": 2, "stream_options": {"include_usage": True}}
    async with serve() as server:
        with_usage = await events(server, "/v1/completions", asked)
        without = await events(server, "/v1/completions", TEXT | {"max_tokens": 2})
    assert with_usage[-1]["choices"] == []
    assert with_usage[-1]["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "total_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert not any("usage" in chunk for chunk in without)


async def test_a_text_stream_has_text_instead_of_deltas(serve):
    """/v1/completions streams `text`, one event for each token."""
    async with serve() as server:
        chunks = await events(server, "/v1/completions", TEXT | {"max_tokens": 2})
    assert [chunk["object"] for chunk in chunks] == ["text_completion"] * 2
    assert [len(chunk["choices"][0]["text"].split()) for chunk in chunks] == [1, 1]


async def test_ignore_eos_fills_the_context(serve, small_engine):
    """Without a limit and without an end the answer takes all that the context leaves."""
    body = {"model": "tiny", "prompt": [1, 2, 3, 4], "ignore_eos": True}
    engine = small_engine(costs=PROFILES["fast"].config.costs)
    async with serve(engine=engine) as server:
        answer = (await server.client.post("/v1/completions", json=body)).json()
    assert answer["usage"]["total_tokens"] == 64
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_equal_seeds_give_equal_texts(serve):
    """The text follows from the server's seed and the request, not from what was asked before."""
    texts = []
    body = TEXT | {"stream": False, "max_tokens": 12}
    for seed in (1, 1, 2):
        async with serve(seed=seed) as server:
            texts.append(
                (await server.client.post("/v1/completions", json=body)).json()["choices"][0]["text"]
            )
    assert texts[0] == texts[1] != texts[2]
