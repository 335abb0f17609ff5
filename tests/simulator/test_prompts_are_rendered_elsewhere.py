import asyncio
import contextlib
import json
import logging
import socket

import httpx2
import pytest
import tokenizers
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.simulator import server as simulator_server
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings

WORDS = ["[none]", "how", "deep", "is", "the", "canal"]
TEXT = "how deep is the canal"
IMAGE = {"type": "image_url", "image_url": {"url": "http://pictures/lock.png"}}
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
def by_words(tmp_path):
    """A tokenizer.json of a few words; the estimate sees other tokens."""
    known = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[none]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return str(path)


@pytest.fixture
def pair(serve, by_words):
    """An engine, and another one of the same model that renders for it."""

    @contextlib.asynccontextmanager
    async def start(**settings):
        async with (
            serve(tokenizer=by_words) as renderer,
            serve(**{"render_url": renderer.url, **settings}) as server,
        ):
            yield server, renderer

    return start


@contextlib.asynccontextmanager
async def answering(answer):
    """A server that says the same to whoever asks, and the bodies that it got; None says nothing."""
    bodies = asyncio.Queue()

    async def say(reader, writer):
        try:
            await converse(reader, writer)
        except asyncio.IncompleteReadError:
            writer.transport.abort()

    async def converse(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        bodies.put_nowait(json.loads(await reader.readexactly(length)))
        if answer is None:
            await reader.read()
        else:
            status, body = answer
            writer.write(
                b"HTTP/1.1 %d x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
            )
            writer.write(body)
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    listening = await asyncio.start_server(say, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", bodies


async def post(server, path, **body):
    answer = await server.client.post(path, json={"model": "tiny", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_prompts_of_all_apis_have_its_tokens(pair):
    """Usage counts them; the estimate would be six."""
    said = [{"role": "user", "content": TEXT}]
    async with pair() as (server, _):
        chat = await post(server, CHAT, messages=said, max_tokens=1)
        text = await post(server, COMPLETION, prompt=[TEXT, "the canal"], max_tokens=1)
        ids = await post(server, COMPLETION, prompt=[7, 8, 9], max_tokens=1)
        response = await post(server, "/v1/responses", input=TEXT, instructions="how deep")
        messages = await post(server, "/v1/messages", messages=said, system="the canal", max_tokens=1)
        counted = await post(server, "/v1/messages/count_tokens", messages=said, system="the canal")
        vectors = await post(server, "/v1/embeddings", input=[TEXT, "is"])
    assert chat["usage"]["prompt_tokens"] == 5
    assert text["usage"]["prompt_tokens"] == 5 + 2
    assert ids["usage"]["prompt_tokens"] == 3
    assert response["usage"]["input_tokens"] == 2 + 5
    assert messages["usage"]["input_tokens"] == counted["input_tokens"] == 2 + 5
    assert vectors["usage"]["prompt_tokens"] == 5 + 1


async def test_tokens_are_told_as_the_render_service_has_them(pair):
    """By /tokenize and back, and by what is rendered here."""
    async with pair() as (server, renderer):
        told = await post(server, "/tokenize", prompt=TEXT, return_token_strs=True)
        chat = await post(server, "/tokenize", messages=[{"role": "user", "content": TEXT}])
        (rendered,) = await post(server, f"{COMPLETION}/render", prompt=TEXT)
        back = await post(server, "/detokenize", tokens=[1, 2])
        there = await post(renderer, "/tokenize", prompt=TEXT, return_token_strs=True)
    assert told == there
    assert told["tokens"] == rendered["token_ids"] == chat["tokens"] == [1, 2, 3, 4, 5]
    assert back["prompt"] == "how deep"


async def test_cached_blocks_and_images_are_those_that_were_rendered(pair, fast):
    """The places and hashes of images come with the tokens; another image is another prompt."""
    other = {"type": "image_url", "image_url": {"url": "http://pictures/weir.png"}}
    cached = []
    async with pair(engine=fast(block_size=4)) as (server, renderer):
        for part in (IMAGE, IMAGE, other):
            body = {"messages": [{"role": "user", "content": [part, {"type": "text", "text": TEXT}]}]}
            answer = await post(server, CHAT, **body, max_tokens=1)
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            here, there = [await post(each, f"{CHAT}/render", **body) for each in (server, renderer)]
            assert here["features"] == there["features"]
    assert answer["usage"]["prompt_tokens"] == 256 + 5
    assert cached == [0, 260, 0]


async def test_adapters_are_rendered_by_their_base_model(pair, adapter):
    """The render service knows only that one."""
    async with pair(lora_modules=(adapter("sql"),)) as (server, _):
        answer = await post(server, COMPLETION, model="sql", prompt=TEXT, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == 5


async def test_what_a_template_looks_at_is_sent(serve):
    """Messages and tools of every API in the form of a chat; nothing of what concerns the answer."""
    rendered = (200, b'{"token_ids": [1]}')
    tool = {"name": "gauge", "description": "Depth"}
    schema = {"type": "object"}
    async with answering(rendered) as (url, bodies), serve(render_url=url) as server:
        chat_tools = [{"type": "function", "function": tool | {"parameters": schema}}]
        await post(server, CHAT, messages=[{"role": "user", "content": "a"}], tools=chat_tools, max_tokens=1)
        chat = bodies.get_nowait()
        items = [
            {"role": "user", "content": [{"type": "input_image", "image_url": "http://p"}]},
            {"type": "function_call", "call_id": "c1", "name": "gauge", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "3 m"},
        ]
        flat = tool | {"type": "function", "parameters": schema}
        await post(server, "/v1/responses", input=items, tools=[flat])
        responses = bodies.get_nowait()
        source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        turns = [
            {"role": "user", "content": [{"type": "image", "source": source}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "gauge", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3 m"}]},
        ]
        anthropic = tool | {"input_schema": schema}
        await post(server, "/v1/messages", messages=turns, tools=[anthropic], max_tokens=1)
        messages = bodies.get_nowait()
    call = {"id": "c1", "type": "function", "function": {"name": "gauge", "arguments": "{}"}}
    result = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 m"},
    ]
    assert chat == {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "tools": chat_tools}
    assert responses["tools"] == messages["tools"] == chat_tools
    assert responses["messages"][1:] == messages["messages"][1:] == result
    (image,) = responses["messages"][0]["content"]
    (data,) = messages["messages"][0]["content"]
    assert image == {"type": "image_url", "image_url": {"url": "http://p"}}
    assert data == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


async def test_a_render_service_that_is_away_fails_requests(serve, by_words, caplog):
    """Each client reads why, the log has it once; and once more as it is there."""
    caplog.set_level(logging.WARNING)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with serve(render_url=url) as server:
            for _ in range(2):
                answer = await server.client.post(COMPLETION, json={"model": "tiny", "prompt": TEXT})
            sock.listen()
            settings = ServerSettings(engine=PROFILES["fast"].config, models=("tiny",), tokenizer=by_words)
            async with simulator_server.running(settings, sock):
                again = await post(server, COMPLETION, prompt=TEXT, max_tokens=1)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (500, "InternalServerError")
    assert error["message"].startswith(f"Failed to tokenize: the render service {url} is not reached: ")
    away, there = [record.message for record in caplog.records if url in record.message]
    assert "is not reached" in away
    assert "answers again" in there
    assert again["usage"]["prompt_tokens"] == 5


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, b"nothing here"), "answered /v1/completions/render with 404: nothing here"),
        ((200, b"<html>"), "answered /v1/completions/render with what is no tokens: "),
        ((200, b'[{"token_ids": []}]'), "answered /v1/completions/render with what is no tokens: "),
        ((200, b'[{"token_ids": [4294967296]}]'), "answered with ids beyond 32 bits"),
        ((200, b"[]"), "answered 0 prompts for 1"),
        ((200, b"[" * 100_000), "answered /v1/completions/render with what is no tokens: "),
        (
            (200, b'[{"token_ids": [1], "more": ' + b"[" * 100_000),
            "answered /v1/completions/render with what is no tokens: ",
        ),
    ],
)
async def test_what_is_no_rendered_prompt_is_told(serve, answer, told):
    """With the status that llm-d-inference-sim has for it."""
    async with answering(answer) as (url, _), serve(render_url=url) as server:
        refused = await server.client.post(COMPLETION, json={"model": "tiny", "prompt": TEXT})
    assert refused.status_code == 500
    assert f"the render service {url} {told}" in refused.json()["error"]["message"]


async def test_what_it_refuses_is_the_clients_error(serve):
    """In its own words."""
    refusal = json.dumps({"error": {"message": "no such template"}}).encode()
    async with answering((400, refusal)) as (url, _), serve(render_url=url) as server:
        refused = await server.client.post(COMPLETION, json={"model": "tiny", "prompt": TEXT})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "The render service refuses this: no such template"


async def test_an_answer_without_end_is_cut(serve, monkeypatch):
    """Before it fills the memory."""
    monkeypatch.setattr("headgate.simulator.server.rendering.service.MOST_BYTES", 1000)
    async with answering((200, b" " * 1001)) as (url, _), serve(render_url=url) as server:
        refused = await server.client.post(COMPLETION, json={"model": "tiny", "prompt": TEXT})
    assert "answered /v1/completions/render with more than 1000 bytes" in refused.json()["error"]["message"]


async def test_prompts_with_images_may_take_longer(serve):
    """Each has a limit of its own, and the error says which."""
    said = [{"role": "user", "content": [IMAGE]}]
    limits = {"render_timeout_s": 0.125, "mm_render_timeout_s": 0.25}
    async with answering(None) as (url, _), serve(render_url=url, **limits) as server:
        text = await server.client.post(COMPLETION, json={"model": "tiny", "prompt": TEXT})
        image = await server.client.post(CHAT, json={"model": "tiny", "messages": said})
    assert "did not answer within 0.125 s" in text.json()["error"]["message"]
    assert "did not answer within 0.25 s" in image.json()["error"]["message"]


async def test_an_engine_that_stops_waits_no_longer(serve):
    """Who waits for the render service is told."""
    body = {"model": "tiny", "prompt": TEXT}
    async with httpx2.AsyncClient(timeout=60) as client, answering(None) as (url, bodies):
        async with serve(render_url=url, render_timeout_s=600) as server:
            asking = asyncio.ensure_future(client.post(server.url + COMPLETION, json=body))
            await bodies.get()
        answer = await asking
    assert answer.status_code == 503


def test_urls_and_times_that_cannot_be_are_refused():
    """All at once, by their names."""
    with pytest.raises(ValueError, match=r"render_timeout_s: .*; render_url: .*; render_url: leave it out"):
        ServerSettings(
            engine=PROFILES["fast"].config, render_url="localhost", render_timeout_s=0, tokenizer="t.json"
        )


def test_the_estimate_can_be_forced(monkeypatch, by_words):
    """Whatever else is said."""
    made = []

    def run(served, on_listening):
        made.extend(served)

    monkeypatch.setattr(simulator_server, "run", run)
    words = ["--render-url", "http://127.0.0.1:8082", "--tokenizer", by_words, "--render-timeout", "5s"]
    result = CliRunner().invoke(simulate, ["engine", "--port", "0", "--force-dummy-tokenizer", *words])
    made[0].sock.close()
    assert result.exit_code == 0, result.output
    assert made[0].settings.estimates_tokens
    assert made[0].settings.render_timeout_s == 5
