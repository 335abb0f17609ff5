import json

import pytest

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
GENERATE = "/inference/v1/generate"
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How deep?"}]


async def post(server, path, **body):
    answer = await server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_chat_is_rendered_to_the_tokens_that_it_counts(serve):
    """The ids of /tokenize, and as many as its answer's usage says; nothing is generated."""
    async with serve() as server:
        rendered = await post(server, f"{CHAT}/render", model="tiny", messages=MESSAGES, max_tokens=5)
        counted = await post(server, "/tokenize", messages=MESSAGES)
        page = (await server.client.get("/metrics")).text
    assert rendered["token_ids"] == counted["tokens"]
    assert rendered["sampling_params"]["max_tokens"] == 5
    assert 'vllm:prompt_tokens_total{engine="0",model_name="tiny"} 0.0' in page


async def test_each_prompt_of_a_completion_is_rendered(serve):
    """Texts and ids, in their order, each with an id of its own."""
    async with serve() as server:
        texts = await post(server, f"{TEXT}/render", model="tiny", prompt=["How deep?", "a"])
        ids = await post(server, f"{TEXT}/render", model="tiny", prompt=[1, 2, 3])
        counted = await post(server, "/tokenize", prompt="How deep?")
    assert [len(each["token_ids"]) for each in texts] == [counted["count"], 1]
    assert len({each["request_id"] for each in texts}) == 2
    assert [each["token_ids"] for each in ids] == [[1, 2, 3]]


@pytest.mark.parametrize(("model", "status"), [("a", 400), ("other", 404)])
async def test_adapters_are_not_rendered(serve, adapter, model, status):
    """Adapters are a 400, unknown models a 404; both name the field."""
    async with serve(lora_modules=(adapter("a"),)) as server:
        for path, body in ((CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "a"})):
            answer = await server.client.post(f"{path}/render", json={"model": model} | body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (status, "model")


async def test_what_is_rendered_can_be_generated(serve):
    """The ids that come out are the text that the completion would have had, with the same prompt cached."""
    asked = {"model": "tiny", "prompt": "How deep is the canal? " * 20, "max_tokens": 7, "seed": 3}
    async with serve() as server:
        whole = await post(server, TEXT, **asked)
        (rendered,) = await post(server, f"{TEXT}/render", **asked)
        answer = await post(server, GENERATE, **rendered)
        (choice,) = answer["choices"]
        text = await post(server, "/detokenize", tokens=choice["token_ids"])
        page = (await server.client.get("/metrics")).text
    assert answer["request_id"] == rendered["request_id"]
    assert (len(choice["token_ids"]), choice["finish_reason"]) == (7, "length")
    assert text["prompt"] == whole["choices"][0]["text"]
    assert 'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 112.0' in page


async def test_a_stream_of_ids_is_the_whole_answer(serve):
    """An event for each token of each choice; the last of a choice says why it ended."""
    body = {"token_ids": [1, 2, 3], "sampling_params": {"n": 2}}
    more = {"stream": True, "stream_options": {"include_usage": True}}
    async with serve(max_tokens_default=5) as server:
        whole = await post(server, GENERATE, **body)
        lines = (await server.client.post(GENERATE, json=body | more)).text.split("\n\n")
    *events, last = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    told = [choice for event in events for choice in event["choices"]]
    for choice in whole["choices"]:
        parts = [part for part in told if part["index"] == choice["index"]]
        assert [part["token_ids"] for part in parts] == [[token] for token in choice["token_ids"]]
        assert [part["finish_reason"] for part in parts] == [None] * 4 + ["stop"]
    assert last["usage"]["completion_tokens"] == 10
    assert lines[-2] == "data: [DONE]"


async def test_ids_that_are_not_cached_enough_are_turned_away(serve):
    """As in a completion: no ids, whole or streamed."""
    body = {"token_ids": [1] * 40, "sampling_params": {}, "cache_hit_threshold": 0.5}
    async with serve() as server:
        (choice,) = (await post(server, GENERATE, **body))["choices"]
        lines = (await server.client.post(GENERATE, json=body | {"stream": True})).text.split("\n\n")
    (event,) = json.loads(lines[0].removeprefix("data: "))["choices"]
    assert [choice["token_ids"], event["token_ids"]] == [[], []]
    assert choice["finish_reason"] == event["finish_reason"] == "cache_threshold"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"sampling_params": {}}, "token_ids"),
        ({"token_ids": [], "sampling_params": {}}, "token_ids"),
        ({"token_ids": [-1], "sampling_params": {}}, "token_ids"),
        ({"token_ids": [1]}, "sampling_params"),
        ({"token_ids": [1], "sampling_params": {"max_tokens": 0}}, "sampling_params.max_tokens"),
        (
            {"token_ids": [1], "sampling_params": {"max_tokens": 1, "min_tokens": 2}},
            "sampling_params.min_tokens",
        ),
    ],
)
async def test_a_bad_field_is_named(serve, body, param):
    """A 400, not a 500."""
    async with serve() as server:
        answer = await server.client.post(GENERATE, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
