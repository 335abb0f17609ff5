"""Lines come out whole however the network cut the stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cluster.transport import LineSplitter, LineTooLongError


@given(
    data=st.binary(max_size=60).map(lambda data: data.replace(b"\r", b"")), cuts=st.sets(st.integers(0, 60))
)
def test_the_lines_are_the_same_however_the_stream_is_cut(data, cuts):
    """Feeding pieces gives the lines of the whole; an unfinished last line is not given."""
    edges = [0, *sorted(cuts), 60]
    splitter = LineSplitter()
    lines = [line for a, b in pairwise(edges) for line in splitter.feed(data[a:b])]
    assert lines == [line for line in data.split(b"\n")[:-1] if line]


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory():
    """The bound holds for what is collected over many pieces, finished or not."""
    splitter = LineSplitter(max_bytes=10)
    assert list(splitter.feed(b"0123456789\n01234")) == [b"0123456789"]
    with pytest.raises(LineTooLongError, match="longer than 10 bytes"):
        list(splitter.feed(b"567890"))
