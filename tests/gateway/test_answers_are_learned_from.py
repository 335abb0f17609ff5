"""Responses teach the gateway about their endpoint and model before the next request is scheduled."""

import asyncio

import pytest

from headgate.fleet import answer_sizes
from headgate.gateway import in_flight
from headgate.requests.bodies.fields import inspect
from headgate.requests.bodies.members import Fields


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (b'{"model":"m"}', None),
        (b'{"model":"m","max_tokens":7}', 7),
        (b'{"model":"m","max_completion_tokens": 8 }', 8),
        (b'{"model":"m","max_output_tokens":9}', 9),
        (b'{"model":"m","max_tokens":null}', None),
        (b'{"model":"m","max_tokens":-1}', None),
        (b'{"model":"m","max_tokens":1e3}', None),
        (b'{"model":"m","max_tokens":"many"}', None),
        (b'{"model":"m","max_tokens":99999999999999999999}', None),
    ],
)
def test_limit_of_an_answer(body, most):
    """What is no number of tokens is left to the engine, which says so."""
    fields = inspect(body)
    assert isinstance(fields, Fields)
    assert fields.most_tokens == most


async def test_lengths_and_pace(gateway, endpoint):
    """The length of the next answer is expected to be as the last, at most as the client wants it."""
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    call = await endpoint.call()
    assert in_flight.endpoints(gateway.shell)["default/pool"][0]["output_tokens_expected"] == (
        answer_sizes.USUAL_TOKENS
    )
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"a\r\ndata: {}\n\n\r\n")
    await client.head()
    await client.reader.readexactly(15)
    at[0] += 0.5
    last = b'data: {"usage":{"prompt_tokens":7,"completion_tokens":11}}\n\n'
    call.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
    await client.reader.readuntil(b"0\r\n\r\n")
    shown = in_flight.endpoints(gateway.shell)["default/pool"][0]
    assert shown["estimate"]["decode_step_s"] == pytest.approx(0.05)
    assert shown["output_tokens_expected"] == 0
    for limit, expected in ((None, 11), (4, 4), (400, 11)):
        asking = asyncio.ensure_future(gateway.ask({"model": "m", "max_tokens": limit}))
        call = await endpoint.call()
        shown = in_flight.endpoints(gateway.shell)["default/pool"][0]
        assert shown["output_tokens_expected"] == expected
        call.answer(b"{}")
        await asking


async def test_responses_that_are_not_streamed_teach_the_rate_of_prefill(gateway, endpoint):
    """Of each, 51 tokens took 1 s, at the pace of the fastest: the prompt was prefilled in the other time."""
    at = [100.0]
    gateway.shell.services.now = lambda: at[0]

    async def ask(letter, prompt_bytes, tokens, seconds):
        message = {"role": "user", "content": letter * prompt_bytes}
        asking = asyncio.ensure_future(gateway.ask({"model": "m", "messages": [message]}))
        call = await endpoint.call()
        at[0] += seconds
        call.answer(b'{"usage":{"prompt_tokens":%d,"completion_tokens":%d}}' % (prompt_bytes // 4, tokens))
        await asking
        at[0] += 10.0

    await ask("z", 4, 51, 1.0)
    for number in range(24):
        kilobytes = 10 + 10 * (number % 3)
        await ask(chr(ord("a") + number), 1_000 * kilobytes, 51, 1.0 + kilobytes / 20)
    estimate = in_flight.endpoints(gateway.shell)["default/pool"][0]["estimate"]
    assert estimate["observations"] >= 10
    assert estimate["prefill_tokens_per_s"] == pytest.approx(5_000, rel=0.25)
