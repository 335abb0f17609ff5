"""A response has the client's name of the model, however it is framed and cut; all else stays."""

import gzip
import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.rewriting.document import HELD_BYTES, Document
from headgate.dataplane.rewriting.events import EventStream
from headgate.dataplane.rewriting.names import LONGEST_NAME_BYTES, NameSplice

NAME = 'chat "é"'
LITERAL = json.dumps(NAME, ensure_ascii=False).encode()


def cut(data, places):
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]


PLACES = st.lists(st.integers(0, 1 << 20), max_size=12)
STRINGS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["model", '"model":"x"', "\\", '\\"', "{", "}]", ",", "y" * LONGEST_NAME_BYTES]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), STRINGS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.just("model"), STRINGS), inner, max_size=3)
    ),
    max_leaves=6,
)
SPACES = st.sampled_from([None, 2])
PLAIN_KEYS = STRINGS.filter(lambda key: key not in ("model", "message", "response"))


@st.composite
def texts(draw):
    """A JSON object, and the same with another name for its top-level model if that is a string."""
    before = draw(st.dictionaries(PLAIN_KEYS, VALUES, max_size=3))
    model = draw(st.sampled_from(["org/served", "", 'a"\\', 5, None, {"model": "x"}]))
    after = draw(st.dictionaries(PLAIN_KEYS, VALUES, max_size=3))
    style = {"indent": draw(SPACES), "ensure_ascii": draw(st.booleans())}
    members = list(before.items()), [("model", model)], [i for i in after.items() if i[0] not in before]
    sent = json.dumps(dict(itertools.chain(*members)), **style)
    if not isinstance(model, str):
        return sent.encode(), sent.encode()
    head, tail = json.dumps({**dict(members[0]), "model": "<here>"}, **style).split('"<here>"')
    assert sent.startswith(head)
    old = json.dumps(model, **style)
    assert tail
    return sent.encode(), head.encode() + LITERAL + sent[len(head) + len(old) :].encode()


@given(texts(), PLACES)
def test_only_the_top_level_model_changes_however_a_text_is_cut(text, places):
    """Whatever else is in it, of any nesting, spacing or escapes, and whichever way it comes."""
    sent, wanted = text
    splice = NameSplice(LITERAL, nested=False)
    assert b"".join(splice.feed(piece) for piece in cut(sent, places)) + splice.flush() == wanted
    assert splice.growth == len(wanted) - len(sent)


LONG = "y" * LONGEST_NAME_BYTES
LONG_STRINGS = [
    ('{"a":"LONG\\\\\\"\\\\","model":"b"}', '{"a":"LONG\\\\\\"\\\\","model":NAME}'),
    ('{"LONG":"model","model":"b"}', '{"LONG":"model","model":NAME}'),
    ('{"model":"LONG","a":"b"}', '{"model":"LONG","a":"b"}'),
    ('{"model":"SHORTER"}', '{"model":NAME}'),
]


@pytest.mark.parametrize(("sent", "wanted"), LONG_STRINGS, ids=["escapes", "key", "no name", "name"])
def test_long_strings_are_cut_anywhere(sent, wanted):
    """At every place, escapes included; and what is too long for a name is left, however it comes."""
    sent, wanted = (text.replace("LONG", LONG).replace("SHORTER", LONG[2:]) for text in (sent, wanted))
    for place in range(len(sent) + 1):
        splice = NameSplice(LITERAL, nested=False)
        passed = splice.feed(sent[:place].encode()) + splice.feed(sent[place:].encode()) + splice.flush()
        assert passed == wanted.encode().replace(b"NAME", LITERAL)


@given(st.one_of(st.binary(max_size=80), st.text('{}[]",:\\model ').map(str.encode)), PLACES)
def test_any_bytes_pass_alike_however_they_are_cut(data, places):
    """What is no JSON passes, and at no time is there an error."""
    whole, pieces = NameSplice(LITERAL, nested=True), NameSplice(LITERAL, nested=True)
    passed = whole.feed(data) + whole.flush()
    assert b"".join(map(pieces.feed, cut(data, places))) + pieces.flush() == passed


@pytest.mark.parametrize("start", [b"{", b'{"a":['])
@pytest.mark.parametrize(
    "piece",
    [b'"', b"\\", b'"model"', b'{"model":', b",", b"0.1234,", b"}", b" ", b'"a":1,', b'"model" : 1 ,'],
)
def test_time_is_linear(piece, start):
    """No answer can keep the gateway busy, in pieces or in one."""
    data = start + piece * (100_000 // len(piece))
    began = time.process_time()
    for size in (64, len(data)):
        splice = NameSplice(LITERAL, nested=True)
        for at in range(0, len(data), size):
            splice.feed(data[at : at + size])
    assert time.process_time() - began < 8


CHAT = 'data: {"id":"1","model":NAME,"choices":[{"delta":{"content":"a\\"model\\": b"}}]}\n\n'
EVENTS = [
    CHAT,
    CHAT.replace("1", "2"),
    CHAT.replace("\n", "\r\n"),
    CHAT.replace("\n", "\r"),
    'data: {"choices":[{"delta":{"model":"inner"}}]}\n\n',
    'data: {"choices":[{"delta":{"model":"inner"}}],\ndata:  "model" : NAME}\n\n',
    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":NAME,"n":1}}\n\n',
    'event: response.created\ndata: {"response":{"tools":[{"model":"x"}],"model":NAME},"number":0}\n\n',
    'data: {"message":["model","x"],"response":{"a":{"model":"x"}}}\n\n',
    'data: {"instructions":"' + "x" * 66_000 + '","model":NAME}\n\n',
    ": a comment\n\n",
    "data: [DONE]\n\n",
]


def coded(pieces):
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def uncoded(data):
    body = b""
    while (size := int(data.partition(b"\r\n")[0], 16)) > 0:
        start = data.index(b"\r\n") + 2
        body += data[start : start + size]
        data = data[start + size + 2 :]
    assert data == b"0\r\n\r\n"
    return body


@given(st.lists(st.sampled_from(EVENTS), max_size=6), PLACES, PLACES, st.booleans())
def test_every_event_has_the_clients_name_however_a_stream_is_cut(events, chunks, reads, takes_usage):
    """Also where chunks cut events and names, or have several, and where an event is too long to hold."""
    sent = "".join(events).replace("NAME", '"org/served"').encode()
    wanted = "".join(events).encode().replace(b"NAME", LITERAL)
    wire = coded(cut(sent, chunks))
    stream = EventStream(is_chunked=True, takes_usage=takes_usage, name=LITERAL)
    passed = b"".join(map(stream.feed, cut(wire, reads)))
    assert uncoded(passed) == wanted
    assert len(wire) - stream.taken_bytes == len(passed)
    plain = EventStream(is_chunked=False, takes_usage=takes_usage, name=LITERAL)
    assert b"".join(map(plain.feed, cut(sent, reads))) + plain.flush() == wanted


def test_a_chunk_may_have_several_events():
    """Each is renamed, also where they begin as one before them did."""
    event = CHAT.replace("NAME", '"org/served"').encode()
    stream = EventStream(is_chunked=True, takes_usage=False, name=LITERAL)
    reads = [*(coded([events])[:-5] for events in (event, event, event * 2)), coded([])]
    passed = b"".join(map(stream.feed, reads))
    assert uncoded(passed) == CHAT.encode().replace(b"NAME", LITERAL) * 4


@given(texts(), PLACES, PLACES)
def test_a_document_keeps_its_framing(text, chunks, reads):
    """Chunks stay chunks, what ends with the connection still does, and a length is corrected."""
    sent, wanted = text
    wire = coded(cut(sent, chunks))
    chunked = Document(LITERAL, length=None, is_chunked=True)
    passed = b"".join(map(chunked.feed, cut(wire, reads))) + chunked.flush()
    assert uncoded(passed) == wanted
    assert len(wire) - chunked.taken_bytes == len(passed)
    endless = Document(LITERAL, length=None, is_chunked=False)
    assert b"".join(map(endless.feed, cut(sent, reads))) + endless.flush() == wanted
    counted = Document(LITERAL, length=len(sent), is_chunked=False)
    passed = b"".join(map(counted.feed, cut(sent, reads))) + counted.flush()
    assert passed == b"content-length: %d\r\n\r\n%b" % (len(wanted), wanted)
    assert len(sent) - counted.taken_bytes == len(wanted)


# -- through sockets

ANSWER = b'{"id":"1","object":"chat.completion","model":"org/served","choices":[{"x":"org/served"}]}'
RESTORED = ANSWER.replace(b'"org/served"', LITERAL, 1)
LATE = b'{"object":"list","data":[%b0],"model":"org/served"}' % (b"0.123456789," * 20_000)


@pytest.fixture
async def renamed(start_gateway, endpoint):
    """A gateway to an endpoint that knows the model "m" as "org/served"."""
    gateway = await start_gateway(endpoint, model="org/served")
    route = gateway.shell.plane.snapshot.models["m"]
    gateway.shell.plane.routes.snapshot = type(gateway.shell.plane.snapshot)(
        models={NAME: route, "org/served": route}, pools=gateway.shell.plane.snapshot.pools
    )
    return gateway


def asked(**fields):
    return {"model": NAME, **fields}


async def test_the_length_is_corrected(renamed, endpoint):
    """An answer with a length has one, of what the client gets, and the connection goes on."""
    endpoint.behave = lambda call: call.answer(ANSWER, **{"content-type": "application/json; charset=utf-8"})
    client = await renamed.connect()
    for _ in range(2):
        client.post(asked())
        response = await client.response()
        assert response.body == RESTORED
        assert response.header("content-length") == str(len(RESTORED))
    assert f"bytes={len(RESTORED)}" in renamed.log_lines()[0]


@pytest.mark.parametrize("http", ["1.0", "1.1"])
@pytest.mark.parametrize("body", [ANSWER, LATE], ids=["early", "late"])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_every_framing(renamed, endpoint, framing, body, http):
    """Whichever way the endpoint frames its answer, and however late its name comes."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

    def behave(call):
        if framing == "chunked":
            call.write(head + b"transfer-encoding: chunked\r\n\r\n" + coded(cut(body, [7, 70, 900])))
        elif framing == "length":
            call.write(head + b"content-length: %d\r\n\r\n" % len(body))
            for piece in cut(body, [3, 44, 5000]):
                call.write(piece)
        else:
            call.write(head + b"\r\n" + body)
            call.close()

    endpoint.behave = behave
    client = await renamed.connect()
    sent = json.dumps(asked()).encode()
    client.send(b"POST /v1/embeddings HTTP/%b\r\nhost: g\r\n" % http.encode())
    client.send(b"content-length: %d\r\n\r\n%b" % (len(sent), sent))
    response = await client.response()
    assert response.body == body.replace(b'"org/served"', LITERAL, 1)
    if http == "1.0":
        assert response.header("transfer-encoding") is None


async def test_an_answer_that_breaks_while_its_head_waits(renamed, endpoint):
    """Nothing was passed on yet, so the client is told why."""

    def behave(call):
        call.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
        call.close()

    endpoint.behave = behave
    response = await renamed.ask(asked())
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_lost")


async def test_streams(renamed, endpoint):
    """Each event of a stream, chunk by chunk."""
    events = [event.replace("NAME", '"org/served"').encode() for event in EVENTS]

    def behave(call):
        call.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        call.write(coded(events))

    endpoint.behave = behave
    response = await renamed.ask(asked(stream=True))
    assert response.body == "".join(EVENTS).encode().replace(b"NAME", LITERAL)
    assert endpoint.calls[0].json["model"] == "org/served"


async def test_what_is_not_renamed_passes_as_it_came(renamed, endpoint):
    """A client that uses the endpoint's own name gets every byte."""
    endpoint.behave = lambda call: call.answer(b'{"model" : "other"}', **{"content-type": "application/json"})
    response = await renamed.ask({"model": "org/served"})
    assert response.body == b'{"model" : "other"}'
    assert endpoint.calls[0].header("accept-encoding") is None


async def test_compression_is_not_asked_for_and_passes(renamed, endpoint):
    """Where a name is to be put back, plain bytes are asked for; if others come all the same, they pass."""
    packed = gzip.compress(ANSWER)
    endpoint.behave = lambda call: call.answer(
        packed, **{"content-type": "application/json", "content-encoding": "gzip"}
    )
    response = await renamed.ask(asked(), **{"accept-encoding": "gzip, br", "x-a": "accept-encoding"})
    assert response.body == packed
    assert endpoint.calls[0].header("accept-encoding") == "identity"
    assert endpoint.calls[0].header("x-a") == "accept-encoding"


async def test_a_compressed_stream_is_not_held(renamed, endpoint):
    """Events that cannot be read pass at once, byte for byte."""
    call_head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: zstd\r\n\r\n"
    client = await renamed.connect()
    client.post(asked(stream=True))
    call = await endpoint.call()
    call.write(call_head + b"\x28packed")
    await client.head()
    assert await client.reader.readexactly(7) == b"\x28packed"
    call.close()
    assert await client.rest() == b""


def test_what_is_held_is_bounded():
    """A name that does not come is not waited for: the length is given up, and the bytes flow."""
    document = Document(LITERAL, length=10 * HELD_BYTES, is_chunked=False)
    passed = [document.feed(b'{"a":"' + b"x" * 1000) for _ in range(100)]
    assert sum(map(len, passed)) > 90_000
    assert b"".join(passed).startswith(b"transfer-encoding: chunked\r\n\r\n")
