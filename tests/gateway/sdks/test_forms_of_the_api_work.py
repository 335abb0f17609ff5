"""The forms of the API besides chats reach a real engine through the gateway, by the SDKs and as engines have
them."""

import asyncio
import json

import openai
import pytest

from headgate.gateway.upload_exchange import UploadExchange

AUDIO = bytes(range(256)) * 200


async def test_transcription(start_gateway, simulator, openai_sdk):
    """A file is uploaded as a multipart form, and its text comes back with the counts."""
    gateway = await start_gateway(simulator)
    made = await openai_sdk(gateway).audio.transcriptions.create(
        model="m", file=("speech.wav", AUDIO), prompt="the canal"
    )
    assert made.text
    assert made.usage.input_tokens == len(AUDIO) // 320 + 1 + 3
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == made.usage.output_tokens


async def test_long_transcription(start_gateway, simulator, openai_sdk):
    """A file that is read in a thread, not on the event loop."""
    sdk = openai_sdk(await start_gateway(simulator))
    made = await sdk.audio.transcriptions.create(model="m", file=("a.wav", AUDIO * 60))
    assert made.text


@pytest.mark.counts_calls
async def test_long_streamed_transcription(start_gateway, simulator, openai_sdk):
    """A file that is sent to the engine while it arrives: the SDK puts `model` and `stream` before it."""
    gateway = await start_gateway(simulator)
    begun = []
    begin = UploadExchange.start

    def counted(exchange, now):
        begun.append(exchange)
        begin(exchange, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UploadExchange, "start", counted)
        asked = {"model": "m", "file": ("a.wav", AUDIO * 60), "stream": True}
        made = await openai_sdk(gateway).audio.transcriptions.create(**asked)
        events = [event async for event in made]
    assert events[-1].text == "".join(event.delta for event in events[:-1])
    assert len(begun) == 1
    assert begun[0].life.account.bytes_in > len(AUDIO) * 60
    assert begun[0].life.decision.stream


async def test_rerank_by_curl(start_gateway, simulator):
    """As the manuals of engines show it."""
    gateway = await start_gateway(simulator)
    body = {"model": "m", "query": "depth of the canal", "documents": ["a mill", "the canal", "its depth"]}
    url = f"http://127.0.0.1:{gateway.port}/v1/rerank"
    made = await asyncio.create_subprocess_exec(
        *("curl", "-sS", url, "-H", "content-type: application/json", "-d", json.dumps(body)),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await made.communicate()
    assert made.returncode == 0
    assert len(json.loads(told)["results"]) == 3


async def test_streamed_transcription(start_gateway, simulator, openai_sdk):
    """The events of the stream add up to the whole text."""
    sdk = openai_sdk(await start_gateway(simulator))
    asked = {"model": "m", "file": ("speech.wav", AUDIO)}
    whole = await sdk.audio.transcriptions.create(**asked)
    events = [event async for event in await sdk.audio.transcriptions.create(**asked, stream=True)]
    assert "".join(event.delta for event in events[:-1]) == whole.text == events[-1].text


async def test_translation(start_gateway, start_simulator, openai_sdk):
    """The same form at another path, for an endpoint that knows the model by another name."""
    gateway = await start_gateway(await start_simulator("simulated/whisper"), model="simulated/whisper")
    with pytest.warns(DeprecationWarning, match="deprecated"):  # the SDK's own words on translations
        made = await openai_sdk(gateway).audio.translations.create(model="m", file=("speech.wav", AUDIO))
    assert made.text


@pytest.mark.parametrize("served", [None, "simulated/embedder"])
async def test_embeddings(start_gateway, start_simulator, openai_sdk, served):
    """As the SDK asks for them (base64), and as numbers; texts and token ids."""
    gateway = await start_gateway(await start_simulator(served or "m"), model=served)
    sdk = openai_sdk(gateway)
    coded = await sdk.embeddings.create(model="m", input=["one", "two"])
    plain = await sdk.embeddings.create(model="m", input=["one", "two"], encoding_format="float")
    assert [each.index for each in coded.data] == [0, 1]
    for one, other in zip(coded.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    assert coded.data[0].embedding != coded.data[1].embedding
    assert coded.usage.prompt_tokens == 2
    assert (await sdk.embeddings.create(model="m", input=[[1, 2, 3]])).usage.prompt_tokens == 3


async def test_responses(start_gateway, simulator, openai_sdk):
    """The Responses API, whole and streamed."""
    sdk = openai_sdk(await start_gateway(simulator))
    asked = {"model": "m", "input": "How deep is the canal?", "max_output_tokens": 9}
    whole = await sdk.responses.create(**asked)
    events = [event async for event in await sdk.responses.create(**asked, stream=True)]
    assert events[-1].response.output_text == whole.output_text
    assert whole.usage.output_tokens == 9


async def test_structured_output(start_gateway, simulator, openai_sdk):
    """A schema reaches the engine as it is."""
    sdk = openai_sdk(await start_gateway(simulator))
    schema = {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}
    answer = await sdk.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "How deep is the canal?"}],
        response_format={"type": "json_schema", "json_schema": {"name": "depth", "schema": schema}},
    )
    assert isinstance(json.loads(answer.choices[0].message.content)["depth"], int)


async def test_messages(start_gateway, simulator, anthropic_sdk):
    """Anthropic's messages, their stream, and the count of their tokens."""
    sdk = anthropic_sdk(await start_gateway(simulator))
    asked = {"model": "m", "messages": [{"role": "user", "content": "How deep is the canal?"}]}
    counted = await sdk.messages.count_tokens(**asked)
    whole = await sdk.messages.create(**asked, max_tokens=9)
    async with sdk.messages.stream(**asked, max_tokens=9) as stream:
        assert (await stream.get_final_message()).content[0].text == whole.content[0].text
    assert whole.usage.input_tokens == counted.input_tokens


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
async def test_rerank(start_gateway, simulator, path):
    """The best documents first; the paths are those that engines have."""
    documents = ["a mill", "the depth of the canal", "canal"]
    body = {"model": "m", "query": "depth of the canal", "documents": documents, "top_n": 2}
    response = await (await start_gateway(simulator)).ask(body, path)
    assert [result["index"] for result in response.json["results"]] == [1, 2]
    assert response.json["usage"]["total_tokens"] > 0


async def test_tokens(start_gateway, simulator):
    """A text, its tokens, and the text again."""
    gateway = await start_gateway(simulator)
    tokens = (await gateway.ask({"model": "m", "prompt": "the canal"}, "/tokenize")).json["tokens"]
    assert (await gateway.ask({"model": "m", "tokens": tokens}, "/detokenize")).json["prompt"] == "the canal"


async def test_batches_are_not_served(start_gateway, simulator, openai_sdk):
    """Files and batches are no inference paths."""
    sdk = openai_sdk(await start_gateway(simulator))
    with pytest.raises(openai.NotFoundError) as raised:
        await sdk.files.create(file=("batch.jsonl", b"{}"), purpose="batch")
    assert raised.value.code == "path_not_forwarded"
    with pytest.raises(openai.NotFoundError) as raised:
        await sdk.batches.create(
            completion_window="24h", endpoint="/v1/chat/completions", input_file_id="file-1"
        )
    assert raised.value.code == "path_not_forwarded"
