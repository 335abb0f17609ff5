"""Responses of other models than the one that is asked: a gateway with fallbacks names them."""

import asyncio

from headgate.loadtest import Measured, results
from headgate.loadtest.records import MAX_KINDS, OTHERS, Tally
from headgate.traffic.traces import TimedRequest

EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
REQUESTS = [TimedRequest(at_s=number / 100, prompt_tokens=8, output_tokens=1) for number in range(3)]


async def test_other_models_are_counted_and_told(raw_server, measured, read_body) -> None:
    """They served what was asked, which the times alone do not say."""
    heads = [b"", b"x-headgate-model: small\r\n", b"x-headgate-model: cloud/mini\r\n"]
    body = EVENT + b"data: [DONE]\n\n"

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_body(reader)
            head = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (heads.pop(), len(body))
            writer.write(head + body)

    async with raw_server(reply) as url:
        tally = await measured(url, REQUESTS)
    assert tally.other_models == {"small": 1, "cloud/mini": 1}
    run = Measured(
        url=url, model="tiny", began_at="", configuration={}, duration_s=1.0, planned=3, tally=tally
    )
    assert results(run).other_models == tally.other_models
    (note,) = [each for each in results(run).notes if "another model" in each]
    assert note.startswith("2 of 3 responses are of another model (")
    assert "small: 1" in note


def test_the_names_of_models_are_bounded() -> None:
    """A server may name a new one in each response; processes add up."""
    tally, other = Tally(), Tally()
    for number in range(2 * MAX_KINDS):
        tally.took_over(f"model-{number}")
    other.took_over("model-0", 5)
    other.took_over("new", 2)
    tally.add(other)
    assert len(tally.other_models) == MAX_KINDS + 1
    assert tally.other_models["model-0"] == 6
    assert tally.other_models[OTHERS] == MAX_KINDS + 2
    assert not Tally().other_models
