import pytest

TEXT = "/v1/completions"
PROMPT = list(range(100))


async def cached(server, **body):
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1} | body
    answer = (await server.client.post(TEXT, json=asked)).json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_usage_says_how_much_of_the_prompt_was_cached(serve):
    """Full blocks that an earlier prompt began with, and never the whole prompt."""
    async with serve() as server:
        assert await cached(server) == 0
        assert await cached(server) == 96
        assert await cached(server, prompt=PROMPT[:40] + [7] * 60) == 32
        assert await cached(server, prompt=[7, *PROMPT]) == 0
        assert await cached(server, prompt=PROMPT[:96]) == 80
        page = (await server.client.get("/metrics")).text
    assert 'vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 497.0' in page
    assert 'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 208.0' in page


async def test_salts_and_adapters_have_caches_of_their_own(serve, adapter):
    """Equal prompts of other salts or adapters share nothing."""
    async with serve(lora_modules=(adapter("a"), adapter("b"))) as server:
        for body in ({}, {"cache_salt": "x"}, {"cache_salt": "y"}, {"model": "a"}, {"model": "b"}):
            assert await cached(server, **body) == 0
            assert await cached(server, **body) == 96


async def test_without_prefix_cache_nothing_is_found(serve, fast):
    """--no-enable-prefix-caching."""
    async with serve(engine=fast(prefix_cache=False)) as server:
        assert [await cached(server), await cached(server)] == [0, 0]


async def test_a_generated_text_has_as_many_tokens_as_were_generated(serve):
    """So an answer that comes back in the next prompt is exactly what it was."""
    question = {"role": "user", "content": "Tell me of the water gates in this old town. "}
    async with serve() as server:
        asked = {"model": "tiny", "messages": [question], "max_tokens": 40}
        answer = (await server.client.post("/v1/chat/completions", json=asked)).json()
        text = answer["choices"][0]["message"]["content"]
        counted = (await server.client.post("/tokenize", json={"prompt": text})).json()
        assert counted["count"] == 40
        assert len(text.encode()) == 160


@pytest.mark.parametrize("text", ["", "a", "How deep is the canal?", "Größe 水位 🌊", "\n\t\0"])
async def test_text_becomes_tokens_and_text_again(serve, text):
    """/detokenize inverts /tokenize; four bytes are a token."""
    async with serve() as server:
        asked = {"prompt": text, "return_token_strs": True}
        answer = (await server.client.post("/tokenize", json=asked)).json()
        assert answer["count"] == len(answer["tokens"]) == -(-len(text.encode()) // 4)
        assert len(answer["token_strs"]) == answer["count"]
        again = await server.client.post("/detokenize", json={"tokens": answer["tokens"]})
    assert again.json() == {"prompt": text}


async def test_messages_are_counted_as_their_chat_is(serve):
    """/tokenize of messages and the usage of the chat agree."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How deep?"}]
    async with serve() as server:
        counted = (await server.client.post("/tokenize", json={"messages": messages})).json()["count"]
        body = {"model": "tiny", "messages": messages, "max_tokens": 1}
        answer = (await server.client.post("/v1/chat/completions", json=body)).json()
    assert answer["usage"]["prompt_tokens"] == counted


@pytest.mark.parametrize("tokens", [[-1], [2**32], ["a"], 3])
async def test_ids_that_cannot_be_are_refused(serve, tokens):
    """A 400 that names the field, not a 500."""
    async with serve() as server:
        answer = await server.client.post("/detokenize", json={"tokens": tokens})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("tokens")
