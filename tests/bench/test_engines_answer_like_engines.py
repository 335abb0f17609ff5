"""What the benchmark's engines answer, without a socket."""

import asyncio
import json

import pytest

import load
import upstream

HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\ncontent-length: {length}\r\n\r\n"


class Recorder(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data


def answer(*pieces: bytes) -> bytes:
    loop = asyncio.new_event_loop()
    try:
        connection = upstream.Connection(upstream.Steps(loop, pace_s=0, engines=1), 0)
        recorder = Recorder()
        connection.connection_made(recorder)
        for piece in pieces:
            connection.data_received(piece)
        return recorder.written
    finally:
        loop.close()


def request(body: bytes) -> bytes:
    return HEAD.format(length=len(body)).encode() + body


def test_a_request_split_at_any_byte_is_answered_once() -> None:
    """Two requests in a row give two answers, wherever the bytes are cut."""
    wire = request(b'{"model":"bench","messages":[]}') * 2
    for cut in range(len(wire)):
        assert answer(wire[:cut], wire[cut:]) == upstream.COMPLETION_RESPONSE * 2


@pytest.mark.parametrize("chunks", [0, 1, upstream.BLOCK_OF_CHUNKS, upstream.BLOCK_OF_CHUNKS + 1])
def test_a_stream_has_as_many_chunks_as_tokens_were_asked_for(chunks: int) -> None:
    """`max_tokens` is the number of chunks, and the end comes once."""
    wire = answer(request(load.chat_body("a", "b", stream=True, max_tokens=chunks)))
    assert wire == upstream.STREAM_HEAD + b"".join(upstream.FRAMES[:chunks]) + upstream.END


def test_usage_comes_only_if_it_is_asked_for() -> None:
    """A gateway that merges include_usage into a request gets the event that it must take out again."""
    options = {"stream": True, "max_tokens": 1, "stream_options": {"include_usage": True}}
    assert upstream.USAGE in answer(request(load.chat_body("a", "b", **options)))
    assert upstream.USAGE not in answer(request(load.chat_body("a", "b", stream=True, max_tokens=1)))


@pytest.mark.parametrize("size", [600, 8000])
def test_prompts_have_the_size_that_the_row_names(size: int) -> None:
    """The prompt of every body has exactly that many bytes, and half of it is shared with other bodies."""
    prompts = [
        [message["content"] for message in json.loads(body)["messages"]] for body in load.chat_bodies(size)
    ]
    assert {sum(map(len, prompt)) for prompt in prompts} == {size}
    assert len({system for system, _ in prompts}) < len({user for _, user in prompts}) == len(prompts)
