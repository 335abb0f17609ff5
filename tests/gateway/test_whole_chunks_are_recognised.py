"""A whole chunk is recognised by its size without parsing, exactly where llhttp reads one as well."""

import httptools
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.dataplane.rewriting.chunks import payload_at

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class _Events:
    """What llhttp reports of the body."""

    def __init__(self):
        self.chunks, self.body, self.complete, self.is_over = 0, b"", False, True

    def on_chunk_header(self):
        self.is_over = False

    def on_chunk_complete(self):
        self.chunks += 1
        self.is_over = True

    def on_body(self, data):
        self.body += data

    def on_message_complete(self):
        self.complete = True


def _one_chunk(data: bytes) -> bytes | None:
    """The payload if llhttp reads the data as one whole chunk that is not the last."""
    events = _Events()
    parser = httptools.HttpResponseParser(events)
    parser.feed_data(HEAD)
    try:
        parser.feed_data(data)
    except httptools.HttpParserError:
        return None
    whole = events.chunks == 1 and events.is_over and not events.complete and data.endswith(b"\r\n")
    return events.body if whole else None


sizes = st.sampled_from(
    ["%x", "%X", "0%x", "000%x", "%x;a=b", " %x", "+%x", "0x%x", "%x ", "%x\n", "_%x", "1_%x"]
)
ends = st.sampled_from(
    [b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"", b"\r\n1", b"\r\n1\r\nx\r\n", b"\r\n0\r\n\r\n"]
)


@given(st.binary(max_size=40), sizes, ends, st.sampled_from([0, 0, 0, 1, -1]))
@settings(max_examples=500)
def test_what_is_recognised_is_one_chunk(payload, size, end, more):
    """Nothing else is, and every chunk in its usual form is."""
    data = (size % max(len(payload) + more, 0)).encode() + b"\r\n" + payload + end
    at = payload_at(data)
    if at:
        assert data[at:-2] == _one_chunk(data)
    elif size == "%x" and end == b"\r\n" and not more and payload:
        raise AssertionError(f"not recognised: {data!r}")


def test_sizes_that_no_engine_sends_are_left_to_the_parser():
    """Eight digits are recognised; more, and none, are parsed."""
    assert payload_at(b"00000001\r\nx\r\n") == 10
    assert payload_at(b"000000001\r\nx\r\n") == 0
    assert payload_at(b"\r\nx\r\n") == 0
    assert payload_at(b"0\r\n\r\n") == 0
    assert payload_at(b"") == 0
