"""The counts of a compressed response are those of the same response uncompressed, within bounds."""

import gzip
import json
import sys
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.rewriting.chunks import LAST_CHUNK, chunk
from headgate.gateway import inflating
from headgate.requests.usage import tail_of

MB = 1 << 20
PATHS = ["/v1/chat/completions", "/v1/messages"]
USAGE = b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}'


def event(content) -> bytes:
    return b"data: %b\n\n" % json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def deflated(parts, bits, is_flushed):
    compressor = zlib.compressobj(wbits=bits)
    out = b""
    for part in parts:
        out += compressor.compress(part) + (compressor.flush(zlib.Z_SYNC_FLUSH) if is_flushed else b"")
    return out + compressor.flush()


def brotlied(parts, is_flushed):
    compressor = brotli.Compressor(quality=4)
    out = b""
    for part in parts:
        out += compressor.process(part) + (compressor.flush() if is_flushed else b"")
    return out + compressor.finish()


PACKED = {
    "gzip": ("gzip", lambda parts, is_flushed: deflated(parts, 31, is_flushed)),
    "members of gzip": ("gzip", lambda parts, is_flushed: b"".join(map(gzip.compress, parts))),
    "x-gzip": ("X-GZip", lambda parts, is_flushed: deflated(parts, 31, is_flushed)),
    "deflate": ("deflate", lambda parts, is_flushed: deflated(parts, 15, is_flushed)),
    "deflate without a header": ("deflate", lambda parts, is_flushed: deflated(parts, -15, is_flushed)),
    "br": ("identity, br", lambda parts, is_flushed: brotlied(parts, is_flushed)),
}


def tail(coding, path=PATHS[0], *, is_chunked=False, owner=None):
    headers = [(b"content-type", b"x"), *((b"content-encoding", each.encode()) for each in coding.split(";"))]
    return (owner or inflating.Inflating()).tail(tail_of(path), headers, is_chunked=is_chunked)


def fed(tail, data, cuts=()):
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    for start, end in zip([0, *ends], ends, strict=False):
        if end > start:
            tail.add(data[start:end])
    return tail


counts = st.integers(0, 10**6)
words = st.text(max_size=60)


@st.composite
def responses(draw):
    """The path, and the parts of a response with counts at its end."""
    path = draw(st.sampled_from(PATHS))
    if path == "/v1/messages":
        begun = {"input_tokens": draw(counts), "cache_read_input_tokens": draw(counts), "output_tokens": 1}
        start = {"type": "message_start", "message": {"id": draw(words), "usage": begun}}
        end = {"type": "message_delta", "usage": {"output_tokens": draw(counts)}}
    else:
        start = {"id": draw(words), "choices": [{"delta": {"role": "assistant"}}]}
        usage = {"prompt_tokens": draw(counts), "completion_tokens": draw(counts)}
        end = {"choices": [], "usage": usage | draw(st.sampled_from([{}, {"prompt_tokens_details": None}]))}
    said = draw(st.lists(words, max_size=30))
    if draw(st.booleans()):
        return path, [
            event(start),
            *(event({"text": word}) for word in said),
            event(end),
            b"data: [DONE]\n\n",
        ]
    whole = json.dumps({"said": said, **end}).encode()
    cut = draw(st.integers(1, len(whole) - 1))
    return path, [whole[:cut], whole[cut:]]


@given(
    responses(),
    st.sampled_from(list(PACKED)),
    st.booleans(),
    st.lists(st.integers(1, 5000), max_size=8) | st.none(),
    st.lists(st.integers(0, 5000), max_size=20),
)
def test_counts_are_those_of_the_plain_response(response, packed, is_flushed, chunks, cuts):
    """However it is compressed, flushed between events or not, framed, and cut on its way."""
    path, parts = response
    coding, pack = PACKED[packed]
    data = pack(parts, is_flushed)
    if chunks is not None:
        framed, rest = b"", data
        for size in chunks:
            framed, rest = framed + chunk(rest[:size]), rest[size:]
        data = framed + chunk(rest) + LAST_CHUNK
    plain = fed(tail_of(path), b"".join(parts))
    inflated = fed(tail(coding, path, is_chunked=chunks is not None), data, cuts)
    assert inflated.usage() == plain.usage() is not None
    assert inflated.plain_bytes == len(b"".join(parts))


broken = st.one_of(
    st.binary(max_size=200),
    st.tuples(
        st.sampled_from([pack([USAGE * 40, USAGE], is_flushed=True) for _, pack in PACKED.values()]),
        st.integers(0, 300),
        st.binary(max_size=40),
        st.integers(0, 40),
    ).map(lambda made: made[0][: made[1]] + made[2] + made[0][made[1] + made[3] :]),
)


@given(broken, st.sampled_from([coding for coding, _ in PACKED.values()]), st.lists(st.integers(0, 400)))
def test_broken_bytes_are_no_fault(data, coding, cuts):
    """Whatever an endpoint sends, nothing is raised, and counts are read or not."""
    inflated = fed(tail(coding), data, cuts)
    assert inflated.usage() is None or inflated.plain_bytes >= len(USAGE)
    assert inflated.event_bytes() == 0


@given(st.sampled_from(list(PACKED)), st.integers(1, 400))
def test_what_is_cut_off_counts_as_far_as_it_came(packed, end):
    """A client that leaves, or an endpoint that breaks off, leaves the events until then."""
    coding, pack = PACKED[packed]
    events = [event({"text": "water" * number}) for number in range(10)]
    data = pack(events, is_flushed=True)
    inflated = fed(tail(coding), data[:end])
    assert b"".join(events).startswith(inflated.text())
    assert inflated.plain_bytes == len(inflated.text())
    assert end < len(data) or inflated.text() == b"".join(events)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br;gzip", "zstd", "gzip;br", "compress", "identity", ""])
def test_codings_that_are_several_or_not_known_are_left_alone(coding):
    """They are for the client, and the tokens are estimated."""
    assert type(tail(coding)) is type(tail_of(PATHS[0]))


def test_without_brotli_its_responses_are_left_alone(monkeypatch):
    """An installation may lack it, and so may a process that can open no further file."""
    monkeypatch.setitem(sys.modules, "brotli", None)
    assert type(tail("br")) is type(tail_of(PATHS[0]))


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_piece_that_stands_for_too_much_is_given_up(packed, is_flushed):
    """Of one piece no more than a megabyte is inflated, and nothing of what follows."""
    coding, pack = PACKED[packed]
    inflated = tail(coding)
    inflated.add(pack([USAGE, b" " * (MB - len(USAGE) + 1)], is_flushed))
    inflated.add(pack([USAGE], is_flushed))
    assert (inflated.usage(), inflated.plain_bytes, inflated.text()) == (None, 0, b"")
    inflated = tail(coding)
    inflated.add(pack([b" " * (MB - len(USAGE)), USAGE], is_flushed))
    assert inflated.usage().prompt == 3


@pytest.mark.parametrize("packed", PACKED)
def test_a_long_response_is_given_up(packed, monkeypatch):
    """However small its pieces are."""
    monkeypatch.setattr(inflating, "MAX_BYTES", MB)
    coding, pack = PACKED[packed]
    numbers = b",".join(b"%d" % number for number in range(1000))
    for more in (0, 1):
        data = pack([numbers, b" " * (MB - len(numbers) - len(USAGE) + more), USAGE], False)
        inflated = fed(tail(coding), data, range(0, len(data), 100))
        assert (inflated.usage() is None, inflated.plain_bytes) == ((True, 0) if more else (False, MB))


def test_few_responses_keep_long_windows(monkeypatch):
    """Those of br up to 4 MB; a place is free again once a response has ended."""
    monkeypatch.setattr(inflating, "MAX_LARGE", 2)
    owner = inflating.Inflating()
    large = brotli.compress(b"w" * inflating.LARGE_BYTES + USAGE, quality=1)
    kept = [fed(tail("br", owner=owner), large) for _ in range(3)]
    assert [each.usage() is not None for each in kept] == [True, True, False]
    assert owner.statistics() == {"large": 2}
    assert fed(tail("gzip", owner=owner), gzip.compress(b"w" * inflating.LARGE_BYTES + USAGE)).usage()
    assert fed(tail("br", owner=owner), brotli.compress(USAGE)).usage()
    kept.clear()
    assert owner.statistics() == {"large": 0}
    assert fed(tail("br", owner=owner), large).usage()


@pytest.mark.parametrize(("bits", "is_read"), [(10, True), (16, True), (22, True), (23, False), (24, False)])
def test_windows_of_br_are_bounded(bits, is_read):
    """Longer ones than servers use would need 16 MB each."""
    inflated = fed(tail("br"), brotli.compress(USAGE, lgwin=bits), [1])
    assert (inflated.usage() is not None) is is_read
