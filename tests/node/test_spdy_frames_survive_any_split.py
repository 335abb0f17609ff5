"""SPDY/3.1 frames: what is encoded is decoded, however it was split, and hostile input ends in an error."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.node.kubelet import spdy

NAMES = st.text("abcdefghij-", min_size=1, max_size=12)
HEADERS = st.dictionaries(NAMES, st.text(st.characters(max_codepoint=255), max_size=20), max_size=5)
STREAMS = st.integers(1, 0x7FFF_FFFF)
FRAMES = st.one_of(
    st.builds(spdy.Opened, STREAMS, HEADERS, st.booleans()),
    st.builds(spdy.Data, STREAMS, st.binary(max_size=300), st.booleans()),
    st.builds(spdy.Reset, STREAMS, st.integers(1, 11)),
    st.builds(spdy.Ping, st.integers(0, 2**32 - 1)),
    st.builds(spdy.GoAway),
)


def encoded(frame, encoder):
    match frame:
        case spdy.Opened(stream, headers, is_last):
            return encoder.open(stream, headers, is_last=is_last)
        case spdy.Data(stream, content, is_last):
            return spdy.data(stream, content, is_last=is_last)
        case spdy.Reset(stream, status):
            return spdy.reset(stream, status)
        case spdy.Ping(number):
            return spdy.ping(number)
        case spdy.GoAway():
            return spdy.go_away(0)


def joined(frames):
    """Parts of data frames put together."""
    whole = []
    for frame in frames:
        match whole[-1:], frame:
            case [spdy.Data(before, data, False)], spdy.Data(stream, more, is_last) if before == stream:
                whole[-1] = spdy.Data(stream, data + more, is_last)
            case _:
                whole.append(frame)
    return whole


@settings(deadline=None)
@given(frames=st.lists(FRAMES, max_size=8), cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_frames_come_through(frames, cuts):
    encoder, decoder = spdy.Encoder(), spdy.Decoder()
    sent = b"".join(encoded(frame, encoder) for frame in frames)
    received, at, number = [], 0, 0
    while at < len(sent):
        size = cuts[number % len(cuts)]
        received += decoder.feed(sent[at : at + size])
        at, number = at + size, number + 1
    assert joined(received) == joined(frames)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_frames_or_an_error(pieces):
    decoder = spdy.Decoder()
    try:
        for piece in pieces:
            list(decoder.feed(piece))
    except spdy.ProtocolError:
        pass


@settings(deadline=None)
@given(kind=st.integers(0, 12), flags=st.integers(0, 255), content=st.binary(max_size=100))
def test_any_control_frame_is_a_frame_or_an_error(kind, flags, content):
    """Where nearly all random bytes would be data."""
    frame = struct.pack(">HHI", 0x8003, kind, flags << 24 | len(content)) + content
    try:
        found = list(spdy.Decoder().feed(frame))
    except spdy.ProtocolError:
        return
    assert len(found) <= 1


def opening(headers):
    """A SYN_STREAM frame with headers as given, uncompressed."""
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    block = deflate.compress(headers) + deflate.flush(zlib.Z_SYNC_FLUSH)
    content = struct.pack(">IIH", 1, 0, 0) + block
    return struct.pack(">HHI", 0x8003, 1, len(content)) + content


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (struct.pack(">HHI", 0x8002, 1, 0), "SPDY version 2"),
        (struct.pack(">HHI", 0x8003, 1, 0xFF_FFFF), "the limit is"),
        (opening(b"\0" * (1 << 20)), "more than 32768 bytes"),
        (opening(struct.pack(">I", 1 << 30)), "1073741824 headers"),
        (opening(struct.pack(">II", 1, 0xFFFF_FFFF)), "longer than all of them"),
        (opening(b"\0"), "too short"),
    ],
    ids=["version", "length", "bomb", "count", "name", "short"],
)
def test_hostile_frames_are_refused(frame, message):
    with pytest.raises(spdy.ProtocolError, match=message):
        list(spdy.Decoder().feed(frame))


def test_data_is_not_held_until_its_frame_is_complete():
    """A frame of 16 MB takes no memory."""
    decoder = spdy.Decoder()
    assert list(decoder.feed(struct.pack(">II", 5, 0xFF_FFFF))) == []
    assert list(decoder.feed(b"abc")) == [spdy.Data(5, b"abc")]


def test_the_dictionary_is_that_of_the_protocol():
    """Its checksum is in the first bytes that any peer sends."""
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2
