"""Header blocks mean the same to hpack, an independent implementation, and to ours."""

import contextlib

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from headgate.http2 import hpack
from headgate.http2.errors import Http2Error

names = st.sampled_from([b":path", b"te", b"x-request-id", b"content-type", b"accept"]) | st.binary(
    min_size=1, max_size=12
)
values = st.sampled_from([b"", b"trailers", b"application/grpc", b"gzip, deflate"]) | st.binary(max_size=300)
headers = st.lists(st.tuples(names, values), max_size=8)


@given(st.lists(st.tuples(headers, st.booleans(), st.sampled_from([None, 0, 60, 4096])), max_size=12))
def test_blocks_of_others_are_decoded(sequence):
    """With a table that both change, with Huffman codes, and again when nothing has changed."""
    encoder, decoder = Encoder(), hpack.HeaderDecoder(1 << 20)
    for listed, is_huffman, table in sequence:
        if table is not None:
            encoder.header_table_size = table
        block = encoder.encode(listed, huffman=is_huffman)
        assert decoder.decode(block) == tuple(listed)
        again = encoder.encode(listed, huffman=is_huffman)
        assert decoder.decode(again) == tuple(listed)


@given(headers)
def test_own_blocks_are_decoded_by_others(listed):
    """And leave their table empty."""
    decoder = Decoder(1 << 20)
    assert [tuple(each) for each in decoder.decode(hpack.encode(listed), raw=True)] == listed
    assert not decoder.header_table.dynamic_entries


def test_a_block_is_decoded_once_while_the_table_stays():
    """The same headers are the same object."""
    encoder, decoder = Encoder(), hpack.HeaderDecoder(8192)
    listed = [(b":method", b"POST"), (b"x-request-id", b"1"), (b"te", b"trailers")]
    first = decoder.decode(encoder.encode(listed))
    second = decoder.decode(encoder.encode(listed))
    third = decoder.decode(encoder.encode(listed))
    assert first == second == tuple(listed)
    assert third is second
    other = decoder.decode(encoder.encode([(b"x-request-id", b"2")]))
    assert other == ((b"x-request-id", b"2"),)
    assert decoder.decode(encoder.encode(listed)) == tuple(listed), "the table has moved meanwhile"


@given(st.binary(max_size=64))
def test_any_bytes_are_headers_or_an_error(block):
    """Nothing else is raised."""
    decoder = hpack.HeaderDecoder(8192)
    with contextlib.suppress(Http2Error):
        decoder.decode(block)


BOMBS = {
    "one long header again and again": b"\x40\x0axxxxxxxxxx\x7f\xb9\x16" + b"y" * 3000 + b"\xbe" * 5000,
    "many short headers": b"\x82" * 5000,
    "a long Huffman code": b"\x00\x81\x1f\xff\xf0\x07" + b"\xff" * 6000,
    "a table that is too large": b"\x3f\xe2\x1f",
    "a table that changes behind a header": b"\x82\x20",
    "a number without end": b"\x7f" + b"\xff" * 100,
    "a number that is too large": b"\x00\x7f\xff\xff\xff\xff\x0f",
    "index 0": b"\x80",
    "an index beyond the table": b"\xbe",
    "a string beyond the block": b"\x00\x05abc",
}


@pytest.mark.parametrize("block", BOMBS.values(), ids=BOMBS)
def test_bombs_end_the_connection(block):
    """Before they have cost much."""
    with pytest.raises(Http2Error):
        hpack.HeaderDecoder(8192).decode(block)
