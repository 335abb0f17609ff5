"""The filter in front of h2 removes only GOAWAY from the bytes, wherever they are cut."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.http2.errors import Http2Error
from headgate.dataplane.http2.frames import MAX_FRAME_BYTES, FrameFilter

GOAWAY = 7


def frame(kind, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 1]) + payload


@st.composite
def frames(draw):
    """Bytes with frames, the same without GOAWAY, and the streams that those name."""
    whole, kept, last = b"", b"", None
    for kind in draw(st.lists(st.sampled_from([0, 1, 4, GOAWAY]), max_size=8)):
        if kind == GOAWAY:
            last = draw(st.integers(0, 0x7FFFFFFF))
            debug = draw(st.binary(max_size=20))
            whole += frame(kind, struct.pack(">II", last | draw(st.sampled_from([0, 1 << 31])), 0) + debug)
        else:
            made = frame(kind, draw(st.binary(max_size=40)))
            whole, kept = whole + made, kept + made
    return whole, kept, last


@given(frames(), st.data())
def test_all_but_goaway_passes(made, data):
    """In order and unchanged, as soon as it is there; the last GOAWAY counts."""
    whole, kept, last = made
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)) | {0, len(whole)})
    filter_ = FrameFilter()
    passed = b"".join(filter_.feed(whole[a:b]) for a, b in itertools.pairwise(cuts))
    assert (passed, filter_.last_stream_id) == (kept, last)


def test_part_of_a_frame_passes_at_once():
    """Long ones need not be kept here: h2 keeps them anyway."""
    filter_, made = FrameFilter(), frame(0, b"x" * 1000)
    assert filter_.feed(made[:500]) == made[:500]
    assert filter_.feed(made[500:] + made[:4]) == made[500:]
    assert filter_.feed(made[4:]) == made


@pytest.mark.parametrize("header", [(MAX_FRAME_BYTES + 1, 0), (MAX_FRAME_BYTES + 1, GOAWAY), (7, GOAWAY)])
def test_lengths_that_nobody_may_send_are_refused(header):
    """Before any of the payload is there."""
    length, kind = header
    start = length.to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0])
    with pytest.raises(Http2Error, match=f"{length} bytes"):
        FrameFilter().feed(start + b"1234567")
