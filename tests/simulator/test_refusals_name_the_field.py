import asyncio

import pytest

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": MESSAGES}, "model"),
        (CHAT, {"model": "tiny"}, "messages"),
        (CHAT, {"model": "tiny", "messages": []}, "messages"),
        (CHAT, {"model": "tiny", "messages": [{"content": "Hello"}]}, "messages[0].role"),
        (CHAT, {"model": "tiny", "messages": [*MESSAGES, {"role": 3}]}, "messages[1].role"),
        (
            CHAT,
            {"model": "tiny", "messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
            "messages[0].content[0].type",
        ),
        (
            CHAT,
            {"model": "tiny", "messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (CHAT, {"model": "tiny", "messages": MESSAGES, "max_tokens": 0}, "max_tokens"),
        (CHAT, {"model": "tiny", "messages": MESSAGES, "n": 1000}, "n"),
        (CHAT, {"model": "tiny", "messages": MESSAGES, "stream": "yes"}, "stream"),
        (CHAT, {"model": "tiny", "messages": MESSAGES, "stream_options": {}}, "stream_options"),
        (TEXT, {"model": "tiny"}, "prompt"),
        (TEXT, {"model": "tiny", "prompt": []}, "prompt"),
        (TEXT, {"model": "tiny", "prompt": ""}, "prompt[0]"),
        (TEXT, {"model": "tiny", "prompt": ["a", ""]}, "prompt[1]"),
        (TEXT, {"model": "tiny", "prompt": ["a", 3]}, "prompt[1]"),
        (TEXT, {"model": "tiny", "prompt": ["a", "b"], "n": 100}, "n"),
    ],
)
async def test_a_bad_field_is_a_400_that_names_it(serve, path, body, param):
    """`param` has the path of the field, and the message begins with it."""
    async with serve() as server:
        response = await server.client.post(path, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (400, "BadRequestError", 400)
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: ")


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b'{"model": "\xff"}', b"[" * 100_000])
async def test_what_is_not_json_is_a_400(serve, body):
    """Cut off, not JSON at all, not UTF-8, nested without end: an error object, never a 500."""
    async with serve() as server:
        response = await server.client.post(CHAT, content=body)
    assert (response.status_code, response.json()["error"]["type"]) == (400, "BadRequestError")


async def test_a_request_beyond_the_context_names_the_numbers(serve, small_engine):
    """Prompt, answer and context are in the message."""
    body = {"model": "tiny", "prompt": list(range(60)), "max_tokens": 10}
    async with serve(engine=small_engine()) as server:
        response = await server.client.post(TEXT, json=body)
        without_limit = await server.client.post(TEXT, json={"model": "tiny", "prompt": list(range(64))})
    assert response.status_code == without_limit.status_code == 400
    message = response.json()["error"]["message"]
    assert "maximum context length is 64 tokens" in message
    assert "70 tokens (60 in the prompt, 10 in the completion)" in message


async def test_a_body_is_bounded(serve):
    """More bytes than allowed are refused, and the server goes on."""
    async with serve(max_body_bytes=1000) as server:
        response = await server.client.post(TEXT, json={"model": "tiny", "prompt": "x" * 2000})
        assert (response.status_code, response.json()["error"]["code"]) == (413, 413)
        assert (await server.client.get("/health")).status_code == 200


async def test_a_slow_body_is_bounded(serve):
    """A client that stops in the middle of its body gets a 408, and its connection is closed."""
    async with serve(body_timeout_s=0.05) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.client.base_url.port)
        writer.write(b'POST /v1/completions HTTP/1.1\r\ncontent-length: 99\r\n\r\n{"model":')
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", CHAT, 405), ("POST", "/health", 405), ("GET", "/x", 404)]
)
async def test_other_methods_and_paths_get_error_objects(serve, method, path, status):
    """Whatever is asked, errors have OpenAI's shape."""
    async with serve() as server:
        response = await server.client.request(method, path)
    assert (response.status_code, response.json()["error"]["code"]) == (status, status)


async def test_an_engine_that_loads_is_not_ready(serve):
    """During its startup the server says 503 and why, for health as for requests."""
    async with serve(startup_s=60.0) as server:
        for response in (
            await server.client.get("/health"),
            await server.client.post(TEXT, json={"model": "tiny", "prompt": "x"}),
        ):
            assert response.status_code == 503
            assert "still loading" in response.json()["error"]["message"]


async def test_headers_say_who_answered(serve):
    """Request id, pod and port are on answers and on errors; a request id that is no text is left out."""
    async with serve(pod_name="engine-7") as server:
        for model in ("tiny", "other"):
            response = await server.client.post(
                TEXT, json={"model": model, "prompt": "x", "max_tokens": 1}, headers={"x-request-id": "r-1"}
            )
            assert response.headers["x-request-id"] == "r-1"
            assert response.headers["x-inference-pod"] == "engine-7"
            assert server.url.endswith(":" + response.headers["x-inference-port"])
        odd = await server.client.get("/health", headers={"x-request-id": b"\xff"})
        assert "x-request-id" not in odd.headers
