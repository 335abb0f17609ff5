"""Whatever an endpoint sends over HTTP/2 is a response or ends the connection; nothing raises."""

import asyncio
import itertools

from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.http2.translator import Translator
from headgate.dataplane.rewriting.chunks import Chunks
from headgate.loop_turns import Turns

REQUEST = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 5\r\n\r\nhello"


class Loop:
    """Nothing here is so long that it would have to wait for its turn."""


TURNS = Turns(Loop())


class Socket(asyncio.Transport):
    """Takes everything."""

    def __init__(self):
        super().__init__()
        self.is_ended = False

    def write(self, data):
        pass

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.is_ended

    def close(self):
        self.is_ended = True

    abort = close


class User(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self):
        self.received = b""

    def data_received(self, data):
        self.received += data


def transcript(pieces, *, has_length):
    """What a server sends for one request, as a list of what it wrote at a time."""
    server = H2Connection(H2Configuration(client_side=False))
    client = H2Connection(H2Configuration(client_side=True))
    for each in (server, client):
        each.initiate_connection()
    written = [server.data_to_send()]
    client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "g")])
    client.end_stream(1)
    server.receive_data(client.data_to_send())
    length = [("content-length", str(sum(map(len, pieces))))] if has_length else []
    server.send_headers(1, [(":status", "200"), ("content-type", "text/plain"), *length])
    for piece in pieces:
        server.send_data(1, piece)
    server.end_stream(1)
    return [*written, server.data_to_send()]


def told(sent):
    """What the user is told of these writes, and whether the connection goes on."""
    user, socket = User(), Socket()
    translator = Translator(user, TURNS, TURNS)
    translator.connection_made(socket)
    translator.write(REQUEST)
    for data in sent:
        if not socket.is_ended:
            translator.data_received(data)
    return user.received, not translator.is_closing()


frames = st.builds(
    lambda kind, flags, stream, payload: (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    ),
    st.integers(0, 11),
    st.sampled_from([0, 1, 4, 5, 8, 0x20, 0x2D, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 1 << 31]),
    st.binary(max_size=24) | st.sampled_from([b"\x88", b"\x88\x5c\x01\x35", b"\0" * 8, b"\0\0\0\0\0"]),
)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.booleans(), st.data())
def test_an_answer_is_the_same_however_it_is_cut(pieces, has_length, data):
    """Its head once, then its body as it came, in chunks where it has no length."""
    sent = transcript(pieces, has_length=has_length)
    whole = b"".join(sent)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)) | {0, len(whole)})
    received, goes_on = told(whole[a:b] for a, b in itertools.pairwise(cuts))
    head, _, body = received.partition(b"\r\n\r\n")
    assert goes_on
    assert head.startswith(b"HTTP/1.1 200 \r\ncontent-type: text/plain\r\n")
    if not has_length:
        assert body.endswith(b"0\r\n\r\n")
        body, _ = Chunks().feed(body)
    assert body == b"".join(pieces)


@given(st.lists(frames, max_size=6), st.integers(0, 2))
def test_frames_of_any_kind_end_no_more_than_the_connection(sent, place):
    """Before the settings, after them, or after an answer."""
    whole = transcript([b"hello"], has_length=True)
    told([*whole[:place], *sent])


@given(st.data())
def test_broken_bytes_end_no_more_than_the_connection(data):
    """An answer of which some bytes are others."""
    whole = bytearray(b"".join(transcript([b"hello", b"world"], has_length=False)))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    told([bytes(whole)])


def test_streams_that_were_are_not_kept_account_of():
    """A connection serves for days."""
    translator, server = Translator(User(), TURNS, TURNS), H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    socket = Socket()
    socket.write = server.receive_data
    translator.connection_made(socket)
    for place in range(100):
        translator.write(REQUEST)
        server.send_headers(2 * place + 1, [(":status", "204")], end_stream=True)
        translator.data_received(server.data_to_send())
    assert not translator.is_closing()
    h2 = translator._http2
    assert len(h2.streams) + len(h2._closed_streams) < 20
