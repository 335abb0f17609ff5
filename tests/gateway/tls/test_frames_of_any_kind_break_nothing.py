"""Whatever frames a client sends, its requests end, nothing is left over, and no other client notices."""

import asyncio
import itertools
import logging

import pytest
from http2_in_memory import GREETING, frames_in, send
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.http2 import frames, hpack

pytestmark = pytest.mark.usefixtures("endless_turns")

PSEUDO = (
    (b":method", b"GET"), (b":method", b"POST"), (b":method", b"HEAD"), (b":method", b"CONNECT"),
    (b":path", b"/v1/models"), (b":path", b"/v1/completions"), (b":path", b"x"), (b":path", b"/ /"),
    (b":scheme", b"https"), (b":scheme", b"ftp"), (b":authority", b"gateway"), (b":authority", b"a b"),
    (b":status", b"200"), (b":protocol", b"websocket"),
)  # fmt: skip
FIELDS = (
    (b"content-length", b"4"), (b"content-length", b"+4"), (b"content-length", b"0"), (b"host", b"gateway"),
    (b"host", b"other"), (b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"te", b"gzip"),
    (b"Upper", b"case"), (b"a b", b"c"), (b"x", b"a\r\nb: c"), (b"x", b"a\0b"), (b"x", b" led"),
    (b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"expect", b"100-continue"), (b"upgrade", b"h2c"),
    (b"x-long", b"y" * 900), (b"", b"z"), (b"content-encoding", b"gzip"),
)  # fmt: skip
WELL_FORMED = st.sampled_from(
    [
        [(b":method", method), (b":scheme", b"https"), (b":path", path), (b":authority", b"gateway")]
        for method in (b"GET", b"POST", b"HEAD", b"OPTIONS")
        for path in (b"/v1/models", b"/v1/completions", b"/healthz", b"/none")
    ]
)
HEADERS = st.one_of(
    WELL_FORMED,
    st.tuples(WELL_FORMED, st.lists(st.sampled_from(FIELDS), max_size=4)).map(lambda both: both[0] + both[1]),
    st.lists(st.sampled_from(PSEUDO + FIELDS), max_size=8),
)
BLOCKS = st.one_of(HEADERS.map(hpack.encode), st.binary(max_size=40))
STREAMS = st.sampled_from((0, 1, 1, 2, 3, 3, 5, 7, 9, 0x7FFFFFFF))
FLAGS = st.sampled_from((0, 1, 4, 4, 5, 5, 5, 8, 0x20, 0x2D, 0xFF))
SETTING_VALUES = st.sampled_from((0, 1, 100, 65_535, 2**31))
FRAMES = st.one_of(
    st.builds(lambda stream, block, flags: frames.frame(1, stream, block, flags), STREAMS, BLOCKS, FLAGS),
    st.builds(
        lambda stream, data, flags: frames.frame(0, stream, data, flags),
        STREAMS,
        st.sampled_from((b"", b"{}", b"data", b"x" * 5000, b'{"model":"m"}')),
        FLAGS,
    ),
    st.builds(frames.frame, st.integers(2, 12), STREAMS, st.binary(max_size=12), FLAGS),
    st.builds(frames.window_update, STREAMS, st.sampled_from((0, 1, 2**31 - 1))),
    st.builds(frames.settings, st.lists(st.tuples(st.integers(0, 9), SETTING_VALUES), max_size=3)),
    st.builds(frames.reset, STREAMS, st.integers(0, 14)),
    st.binary(max_size=20),
)  # fmt: skip


@pytest.fixture(scope="module")
def errors():
    """What the gateway logs as an error."""
    records: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: records.append(handler.format(record))
    logger = logging.getLogger("headgate")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(ends) if a < b]


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(FRAMES, max_size=12), st.lists(st.integers(0, 1 << 16), max_size=3))
def test_frames_of_any_kind(errors, sent, places):
    """However they are cut. What is answered is HTTP/2, and nothing fails here."""
    errors.clear()
    data = b"".join(sent)
    written = asyncio.run(send([GREETING, *cut(data, places)]))
    assert errors == []
    assert all(kind <= 9 for kind, _, _, _ in frames_in(written))


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(HEADERS, st.sampled_from((b"", b"data", b"{}")))
def test_requests_that_are_malformed_reach_nobody(errors, headers, body):
    """They are reset (RFC 9113, 8.1.1); all others get a response."""
    errors.clear()
    sent = frames.header_frames(1, hpack.encode(headers), 0) + frames.frame(0, 1, body, 1)
    written = asyncio.run(send([GREETING, sent]))
    assert errors == []
    kinds = {kind for kind, _, number, _ in frames_in(written) if number == 1}
    is_malformed = _is_malformed(headers, body)
    assert (frames.HEADERS not in kinds) == is_malformed, headers
    if is_malformed:
        assert frames.RST_STREAM in kinds


def _is_malformed(headers, body) -> bool:
    names = [name for name, _ in headers]
    values = dict(headers)
    pseudo = [name for name in names if name.startswith(b":")]
    if any(names[place].startswith(b":") for place in range(len(names)) if place >= len(pseudo)):
        return True
    if len(set(pseudo)) != len(pseudo) or {b":status", b":protocol"} & set(pseudo):
        return True
    if any(name != name.lower() or b" " in name or not name for name in names):
        return True
    if any(set(value) & set(b"\r\n\0") or value != value.strip() for _, value in headers):
        return True
    if {b"transfer-encoding", b"connection", b"upgrade"} & set(names) or (b"te", b"gzip") in headers:
        return True
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (hosts and b":authority" in values and hosts[0] != values[b":authority"]):
        return True
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) > 1 or any(not value.isdigit() or int(value) != len(body) for value in lengths):
        return True
    if b" " in values.get(b":authority", b""):
        return True
    if values.get(b":method") == b"CONNECT":
        return set(pseudo) != {b":method", b":authority"}
    path = values.get(b":path", b"")
    return (
        b":method" not in values
        or values.get(b":scheme") != b"https"
        or not path.startswith(b"/")
        or b" " in path
    )
