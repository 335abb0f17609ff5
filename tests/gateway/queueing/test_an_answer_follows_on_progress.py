"""Any response of an endpoint becomes the rest of a stream whose head the client already has."""

import itertools
import json

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.continuation import MAX_BODY_BYTES, Continuation

EVENTS = b'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b"}]}\n\ndata: [DONE]\n\n'
STREAM = (b"content-type", b"text/event-stream")
JSON = (b"content-type", b"application/json")
CHUNKED = (b"transfer-encoding", b"chunked")


def continued(status, *headers, target=b"/v1/completions"):
    return Continuation(target, status, list(headers), may_keep_alive=True, takes_usage=False)


def coded(pieces):
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def uncoded(data):
    """The payload of a body in chunks, which must be complete."""
    body = b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line, 16)
        body += data[:size]
        assert data[size : size + 2] == b"\r\n"
        data = data[size + 2 :]
        if not size:
            assert data == b""
            return body


def cut(data, places):
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]


PLACES = st.lists(st.integers(0, 1 << 12), max_size=6)


@given(chunks=PLACES, reads=PLACES, is_chunked=st.booleans(), is_straight=st.booleans())
def test_events_follow_as_they_are(chunks, reads, is_chunked, is_straight):
    """However the endpoint frames them, and wherever they are cut."""
    framing = CHUNKED if is_chunked else (b"content-length", b"%d" % len(EVENTS))
    answer = continued(200, STREAM, framing)
    wire = coded(cut(EVENTS, chunks)) if is_chunked else EVENTS
    written = []
    write = written.append
    for place, read in enumerate(cut(wire, reads)):
        if is_straight and place and answer.is_straight:
            write(answer.change(read))
        else:
            write(answer.pass_on(read))
    write(answer.flush())
    assert uncoded(b"".join(written)) == EVENTS
    assert not answer.ends_with_connection


@given(reads=PLACES, is_chunked=st.booleans())
def test_an_error_becomes_an_event(reads, is_chunked):
    """With the body that the endpoint gave, on one line."""
    error = {"error": {"message": "too long\n\nby far", "code": 400}}
    body = json.dumps(error, indent=1).encode()
    wire = coded([body[:5], body[5:]]) if is_chunked else body
    answer = continued(400, JSON, CHUNKED if is_chunked else (b"content-length", b"%d" % len(body)))
    passed = b"".join(answer.pass_on(read) for read in cut(wire, reads))
    assert (passed, answer.has_begun) == (b"", False)
    event = uncoded(answer.flush())
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert json.loads(event[6:]) == error


def test_messages_have_named_events():
    """Anthropic's SDK takes an error for one by the name of its event."""
    answer = continued(400, JSON, (b"content-length", b"14"), target=b"/v1/messages")
    answer.pass_on(b'{"type":"err"}')
    assert uncoded(answer.flush()) == b'event: error\ndata: {"type":"err"}\n\n'


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"x" * (MAX_BODY_BYTES + 1)])
def test_what_is_no_json_is_told_in_words(body):
    """Nothing of it can stand in an event that clients read."""
    answer = continued(502, (b"content-length", b"%d" % len(body)))
    answer.pass_on(body)
    event = json.loads(uncoded(answer.flush())[6:])
    assert "status 502" in event["error"]["message"]


def test_a_body_without_a_length_ends_with_its_connection():
    """The client's does not."""
    answer = continued(200, STREAM)
    assert answer.ends_with_connection
    assert answer.keep_alive
    assert uncoded(answer.pass_on(EVENTS) + answer.flush()) == EVENTS


@pytest.mark.parametrize("framing", [CHUNKED, (b"content-length", b"99")])
def test_a_stream_that_breaks_ends_with_an_event(framing):
    """In chunks, whatever the endpoint had."""
    answer = continued(200, STREAM, framing)
    first = b"data: 1\n\n"
    passed = answer.pass_on(coded([first])[:-5] if framing is CHUNKED else first)
    assert uncoded(passed + answer.cut_off(lambda: b"data: broken\n\n")) == first + b"data: broken\n\n"


def test_other_codings_are_refused():
    """They cannot be read."""
    with pytest.raises(httptools.HttpParserError):
        continued(200, STREAM, (b"transfer-encoding", b"gzip, chunked"))
