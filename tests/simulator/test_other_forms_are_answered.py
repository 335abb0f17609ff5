"""Audio, embeddings, rerank and realtime sessions: what they answer, and which field they refuse."""

import asyncio
import base64
import json
import struct

import pytest
import websockets

AUDIO = {"file": ("speech.wav", b"\x01" * 32_000)}


async def post(server, path, body):
    response = await server.client.post(path, json=body)
    return response.status_code, response.json()


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/audio/translations"])
async def test_formats_of_a_transcription(serve, path):
    """The text alone, with its counts, or with its time."""
    async with serve() as server:
        made = {}
        for form in ("json", "text", "verbose_json"):
            data = {"model": "tiny", "response_format": form, "language": "de"}
            made[form] = (await server.client.post(path, data=data, files=AUDIO)).text
    told, detailed = json.loads(made["json"]), json.loads(made["verbose_json"])
    assert told["text"] == made["text"] == detailed["text"] == detailed["segments"][0]["text"]
    assert told["usage"]["input_tokens"] == 101
    assert (detailed["language"], detailed["duration"]) == ("de", pytest.approx(2.02))


@pytest.mark.parametrize(
    ("data", "files", "status", "param"),
    [
        ({"model": "tiny"}, {"prompt": (None, "x")}, 400, "file"),
        ({}, AUDIO, 400, "model"),
        ({"model": "other"}, AUDIO, 404, "model"),
        ({"model": "tiny", "response_format": "srt"}, AUDIO, 400, "response_format"),
        ({"model": "tiny", "file": "x"}, {"other": ("a", b"")}, 400, None),
    ],
)
async def test_forms_that_are_refused(serve, data, files, status, param):
    """With the part that is wrong."""
    async with serve() as server:
        response = await server.client.post("/v1/audio/transcriptions", data=data, files=files)
        assert response.status_code == status, response.text
        assert response.json()["error"]["param"] == param
        plain = await server.client.post("/v1/audio/transcriptions", json={"model": "tiny"})
        assert plain.status_code == 400
        assert "multipart" in plain.json()["error"]["message"]


async def test_embeddings(serve):
    """Depend on the text alone, in both encodings; their number and size are bounded."""
    async with serve() as server:
        asked = {"model": "tiny", "input": ["one", "two", "one"], "dimensions": 3}
        _, plain = await post(server, "/v1/embeddings", asked)
        _, coded = await post(server, "/v1/embeddings", asked | {"encoding_format": "base64"})
        vectors = [each["embedding"] for each in plain["data"]]
        assert vectors[0] == vectors[2] != vectors[1]
        read = [struct.unpack("<3f", base64.b64decode(each["embedding"])) for each in coded["data"]]
        assert [list(each) for each in read] == [pytest.approx(each, abs=1e-6) for each in vectors]
        assert plain["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
        for wrong, param in (
            ({"dimensions": 0}, "dimensions"),
            ({"input": []}, "prompt"),
            ({"input": ["x"] * 129}, "input"),
            ({"encoding_format": "hex"}, "encoding_format"),
        ):
            status, refused = await post(server, "/v1/embeddings", asked | wrong)
            assert (status, refused["error"]["param"]) == (400, param)


async def test_rerank(serve):
    """The best documents first."""
    async with serve() as server:
        asked = {"model": "tiny", "query": "the canal", "documents": ["mill", "a canal", "the canal"]}
        _, found = await post(server, "/rerank", asked)
        assert [(each["index"], each["relevance_score"]) for each in found["results"]] == [
            (2, 1),
            (1, 0.5),
            (0, 0),
        ]
        status, refused = await post(server, "/rerank", asked | {"documents": []})
        assert (status, refused["error"]["param"]) == (400, "documents")


async def test_a_realtime_session(serve):
    """Answers with the last text, counts what it was told, and sends anything else back."""
    async with serve() as server:
        url = server.url.replace("http", "ws") + "/v1/realtime?model=tiny"
        async with websockets.connect(url) as socket:
            assert json.loads(await socket.recv())["type"] == "session.created"
            for sent in ("not json", "[1]", b"\x00\x01"):
                await socket.send(sent)
                assert await socket.recv() == sent
            await socket.send('{"type":"session.update","session":{}}')
            assert json.loads(await socket.recv())["type"] == "session.updated"
            item = {"content": [{"type": "input_text", "text": "the canal"}]}
            await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
            await socket.recv()
            await socket.send('{"type":"input_audio_buffer.append","audio":""}')
            await socket.send('{"type":"response.create"}')
            events = [json.loads(await socket.recv()) for _ in range(5)]
            assert [each.get("delta") for each in events[1:3]] == ["the", "canal"]
            assert events[-1]["response"]["usage"] == {
                "total_tokens": 6,
                "input_tokens": 3,
                "output_tokens": 3,
            }
        with pytest.raises(websockets.InvalidStatus) as raised:
            await websockets.connect(url.replace("tiny", "other"))
        assert raised.value.response.status_code == 403


async def test_sessions_do_not_hold_up_the_end(serve):
    """An engine that stops closes them."""
    async with serve() as server:
        socket = await websockets.connect(server.url.replace("http", "ws") + "/v1/realtime")
        await socket.recv()
    async with asyncio.timeout(20):
        await socket.wait_closed()
