"""Before a run, a server that is busy for now is asked again, when it says so, and not forever."""

import json

import pytest

from headgate.loadtest import Form, HttpError, Patience, probe, probing, served_model
from headgate.loadtest.http import parse

FORM = Form(api="completions", model="tiny", is_streamed=False)
MODELS = json.dumps({"data": [{"id": "tiny"}]}).encode()
ANSWER = json.dumps(
    {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
).encode()


def response(status: int, body: bytes = b"{}", *lines: bytes) -> bytes:
    head = [b"HTTP/1.1 %d It" % status, b"content-length: %d" % len(body), b"connection: close", *lines]
    return b"\r\n".join((*head, b"", body))


@pytest.fixture
def busy(raw_server):
    """A server that sends these responses, one after the other, and then serves."""

    def start(*responses: bytes):
        left = list(responses)

        async def reply(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            served = response(200, MODELS if head.startswith(b"GET") else ANSWER)
            writer.write(left.pop(0) if left else served)
            await writer.drain()
            await reader.read(65536)

        return raw_server(reply)

    return start


def noting(slept):
    """Waits take no time."""

    async def sleep(delay_s):
        slept.append(delay_s)

    return sleep


async def test_a_limit_is_waited_for(busy, monkeypatch):
    """As long as the server asks for, and each wait is told."""
    said, slept = [], []
    monkeypatch.setattr(probing, "_sleep", noting(slept))
    patience = Patience(said.append)
    async with busy(response(429, b"{}", b"retry-after: 3"), response(429)) as url:
        assert await served_model(parse(url), patience) == "tiny"
    async with busy(response(429, b"{}", b"retry-after: 2")) as url:
        assert (await probe(parse(url), FORM, "s", patience)).form == FORM
    assert slept == [3, 2, 2]
    assert said[0] == "status 429 before the run; trying again in 3 s"
    assert len(said) == 3


async def test_a_start_is_waited_for(busy, monkeypatch):
    """If the server says when it will be there."""
    slept = []
    monkeypatch.setattr(probing, "_sleep", noting(slept))
    async with busy(response(503, b"{}", b"retry-after: 5")) as url:
        await probe(parse(url), FORM, "s", Patience(lambda _: None))
    assert slept == [5]
    async with busy(response(503, b"no engine")) as url:
        with pytest.raises(HttpError, match="http 503: no engine"):
            await probe(parse(url), FORM, "s", Patience(lambda _: None))


async def test_waits_have_an_end(busy, monkeypatch):
    """All of them together, and each."""
    slept = []
    monkeypatch.setattr(probing, "_sleep", noting(slept))
    async with busy(*[response(429, b"{}", b"retry-after: 25")] * 9) as url:
        with pytest.raises(HttpError, match="asks to try again in 25 s, which is too long to wait"):
            await probe(parse(url), FORM, "s", Patience(lambda _: None))
    assert slept == [25, 25]
    async with busy(response(429, b"{}", b"retry-after: 3600")) as url:
        with pytest.raises(HttpError, match="in 3600 s, which is too long"):
            await probe(parse(url), FORM, "s", Patience(lambda _: None))
    slept.clear()
    async with busy(*[response(429, b"{}", b"retry-after: 0")] * 50) as url:
        with pytest.raises(HttpError, match="http 429"):
            await probe(parse(url), FORM, "s", Patience(lambda _: None))
    assert len(slept) == probing.MAX_WAITS
