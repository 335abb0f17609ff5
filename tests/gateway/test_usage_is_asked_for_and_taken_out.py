"""Engines are asked for the token counts of every stream; clients see them only if they asked."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.rewriting.events import HELD_BYTES, EventStream
from headgate.requests.bodies.fields import ask_for_usage, inspect
from headgate.requests.bodies.members import Fields

CHUNK = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"h\xc3\xa9"}}],"usage":null}\n\n'
CONTINUOUS = b'data: {"choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":1}}\n\n'
USAGE = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
FILTERED = b'data: {"choices":[],"prompt_filter_results":[]}\n\n'
COMMENT = b": waiting\n\n"
DONE = b"data: [DONE]\n\n"
EVENTS = [
    CHUNK,
    CONTINUOUS,
    FILTERED,
    COMMENT,
    USAGE.replace(b'{"prompt_tokens":7,"completion_tokens":2}', b" null"),
    b'data: {"usage":null,"choices":[],"x":{"usage":{"a":1}}}\n\n',
    CHUNK.replace(b"\n", b"\r\n"),
    b'data: {"usage": not JSON\n\n',
    b"data: " + b"x" * (HELD_BYTES + 10) + b"\n\n",
    USAGE,
    USAGE.replace(b"\n", b"\r\n"),
    b'event: usage\ndata: {"choices": [ ],\ndata: "usage": {"prompt_tokens": 7}}\n\n',
]
TAKEN = EVENTS[-3:]


def coded(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def uncoded(data: bytes) -> bytes:
    body = b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if not size:
            assert data == b"\r\n"
            return body
        body += data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]


PLACES = st.lists(st.integers(0, 1 << 20), max_size=12)


@given(events=st.lists(st.sampled_from(EVENTS), max_size=8), chunks=PLACES, reads=PLACES)
def test_only_usage_events_are_taken_however_a_stream_is_cut(events, chunks, reads):
    """Chunks and reads may end anywhere; what is left is the stream without those events, well framed."""
    wanted = b"".join(event for event in events if event not in TAKEN) + DONE
    whole = b"".join(events) + DONE
    wire = coded(cut(whole, chunks))
    chunked = EventStream(is_chunked=True, takes_usage=True)
    passed = b"".join(chunked.feed(read) for read in cut(wire, reads))
    assert uncoded(passed) == wanted
    assert len(passed) == len(wire) - chunked.taken_bytes
    plain = EventStream(is_chunked=False, takes_usage=True)
    assert b"".join(plain.feed(read) for read in cut(whole, reads)) + plain.flush() == wanted
    assert plain.taken_bytes == len(whole) - len(wanted)


def test_what_engines_send_passes_as_it_came():
    """A chunk of whole events is neither copied nor held back."""
    stream = EventStream(is_chunked=True, takes_usage=True)
    for event in (COMMENT, CHUNK):
        piece = b"%x\r\n%b\r\n" % (len(event), event)
        assert stream.feed(piece) is piece


def test_an_event_without_end_is_not_held_without_end():
    """Past a limit it is passed on unread."""
    stream = EventStream(is_chunked=False, takes_usage=True)
    passed = sum(len(stream.feed(b"x" * 1000)) for _ in range(1000))
    assert passed >= 1_000_000 - HELD_BYTES


def test_the_extension_of_a_chunk_is_not_kept():
    """It may arrive in pieces."""
    stream = EventStream(is_chunked=True, takes_usage=True)
    passed = b"".join(
        stream.feed(b) for b in [b"a;", *[b"x" * 50] * 50, b"\r", b"\n: waiting\n\n\r\n0\r\n\r\n"]
    )
    assert uncoded(passed) == b": waiting\n"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"continuous_usage_stats": True}, {"continuous_usage_stats": True, "include_usage": True}),  # R27
    ],
)
def test_options_are_merged(options, sent):
    """Whatever the client set stays; everything else in the body is as it was."""
    text = (
        '{"model": "m", "big": 123456789012345678901234567890, "stream": true%s, "x": {"stream_options": 1}}'
    )
    member = "" if options is None else f', "stream_options" : {json.dumps(options)}'
    body = (text % member).encode()
    merged = ask_for_usage(body, decoded(body))
    assert json.loads(merged) == json.loads(body) | {"stream_options": sent}
    assert b"123456789012345678901234567890" in merged


@pytest.mark.parametrize("options", ['{"include_usage":true}', "3", '"x"', "[]"])
def test_what_needs_no_change_or_is_wrong_is_left_to_the_engine(options):
    """The engine answers for options that are no object."""
    body = b'{"model":"m","stream":true,"stream_options":%b}' % options.encode()
    assert ask_for_usage(body, decoded(body)) is None


def decoded(body: bytes) -> Fields:
    fields = inspect(body)
    assert isinstance(fields, Fields)
    return fields


STREAM = {"model": "m", "stream": True}


def stream_answer(call, framing: str) -> None:
    body = CHUNK + USAGE + DONE
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    if framing == "chunked":
        call.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode() + coded([CHUNK, USAGE, DONE]))
    elif framing == "length":
        call.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    else:
        call.write(f"{head}\r\n".encode() + body)
        call.close()


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_usage_is_counted_and_not_shown(gateway, endpoint, framing):
    """R25: the engine sees the option, the metrics count, the client gets what it asked for."""
    client = await gateway.connect()
    client.post(STREAM)
    call = await endpoint.call()
    assert call.json == STREAM | {"stream_options": {"include_usage": True}}
    stream_answer(call, framing)
    assert (await client.response()).body == CHUNK + DONE
    await gateway.idle()
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 2
    assert gateway.metric("headgate_gateway_tokens_total", direction="input") == 7


async def test_usage_that_was_asked_for_is_shown(gateway, endpoint):
    """R26: nothing is changed, in either direction."""
    body = STREAM | {"stream_options": {"include_usage": True}}
    client = await gateway.connect()
    client.post(body)
    call = await endpoint.call()
    assert call.json == body
    stream_answer(call, "chunked")
    assert (await client.response()).body == CHUNK + USAGE + DONE


@pytest.mark.parametrize(
    ("body", "path"),
    [({"model": "m"}, "/v1/chat/completions"), (STREAM, "/v1/responses"), (STREAM, "/v1/messages")],
)
async def test_only_streams_of_completions_are_asked(gateway, endpoint, body, path):
    """Other APIs report their tokens without being asked, and would refuse the option."""
    client = await gateway.connect()
    client.post(body, path)
    call = await endpoint.call()
    assert call.json == body
    call.answer()
    assert (await client.response()).status == 200
