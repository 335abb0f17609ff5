import json

import pytest

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PROMPT = list(range(100))
FORCE = {"X-Cache-Threshold-Finish-Reason": "true"}


async def ask(server, headers=None, **body):
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 3} | body
    return await server.client.post(TEXT, json=asked, headers=headers)


async def ends(server, headers=None, **body):
    answer = (await ask(server, headers, **body)).json()
    return [choice["finish_reason"] for choice in answer["choices"]]


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


async def test_a_prompt_that_is_not_cached_enough_ends_at_once(serve, slow_engine):
    """Empty, without a step of the engine, which would take ten minutes, and nothing of it stays there."""
    async with serve(engine=slow_engine) as server:
        answer = (await ask(server, cache_hit_threshold=0.5)).json()
        now = server.live.statistics()
    assert answer["choices"][0]["text"] == ""
    assert answer["choices"][0]["finish_reason"] == "cache_threshold"
    assert answer["usage"]["completion_tokens"] == 0
    assert (now.running, now.waiting) == (0, 0)


async def test_the_hit_rate_decides(serve):
    """96 of 100 tokens are found again: enough for 0.96, not for more; none that is new is enough."""
    async with serve() as server:
        assert await ends(server, cache_hit_threshold=0.0) == ["length"]
        assert await ends(server, cache_hit_threshold=0.96) == ["length"]
        assert await ends(server, cache_hit_threshold=0.97) == ["cache_threshold"]
        both = [PROMPT, [7, *PROMPT]]
        assert await ends(server, prompt=both, cache_hit_threshold=0.5) == ["length", "cache_threshold"]


async def test_the_servers_threshold_holds_where_the_request_has_none(serve):
    """A request may ask for less."""
    async with serve(cache_hit_threshold=0.8) as server:
        assert await ends(server) == ["cache_threshold"]
        assert await ends(server, cache_hit_threshold=0.0) == ["length"]
        assert await ends(server) == ["length"]


async def test_the_header_forces_it(serve):
    """Whatever is cached."""
    async with serve() as server:
        assert await ends(server) == ["length"]
        assert await ends(server, FORCE) == ["cache_threshold"]
        assert await ends(server, {"X-Cache-Threshold-Finish-Reason": "false"}) == ["length"]


async def test_a_stream_tells_it_in_one_empty_event(serve):
    """In chats after the role; usage counts no token."""
    body = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}}
    chat = body | {"messages": [{"role": "user", "content": "How deep?"}]}
    async with serve() as server:
        texts = events((await server.client.post(TEXT, json=body | {"prompt": "a"}, headers=FORCE)).text)
        chats = events((await server.client.post(CHAT, json=chat, headers=FORCE)).text)
    (text,) = texts[0]["choices"]
    assert (text["text"], text["finish_reason"]) == ("", "cache_threshold")
    assert [event["choices"][0]["finish_reason"] for event in chats[:-1]] == [None, "cache_threshold"]
    assert chats[1]["choices"][0]["delta"] == {"content": ""}
    assert [stream[-1]["usage"]["completion_tokens"] for stream in (texts, chats)] == [0, 0]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "half"])
async def test_a_threshold_is_a_share(serve, threshold):
    """A 400 that names the field."""
    async with serve() as server:
        answer = await ask(server, cache_hit_threshold=threshold)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "cache_hit_threshold"
