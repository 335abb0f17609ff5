"""What two servers could read differently is rejected, however the bytes arrive; so is what is too large."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.gateway_api import head as heads
from headgate.gateway.gateway_api.framing import Body, FramingError
from headgate.requests.refusal import Refusal

LIMITS = heads.Limits(8192, 100)


def read(text: bytes) -> heads.Head | Refusal:
    return heads.read(text + b"\r\n\r\n", LIMITS)


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/1.1",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b",
        b"GET / HTTP/1.1\r\nhost: a b",
        b"GET / HTTP/2.0\r\nhost: a",
        b"GET http://b/ HTTP/1.1\r\nhost: a",
        b"GET x HTTP/1.1\r\nhost: a",
        b"GET /#f HTTP/1.1\r\nhost: a",
        b"CONNECT a:80 HTTP/1.1\r\nhost: a",
        b"GET / HTTP/1.1\r\nhost : a",
        b"GET / HTTP/1.1\nhost: a",
        b"GET / HTTP/1.1\r\nhost: a\r\n folded: b",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked",
        b"POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked",
        b"POST / HTTP/1.1\r\nhost: a\r\nexpect: a cookie",
        b"GET / HTTP/1.1\r\nhost: a" + b"\r\nx: y" * 101,
    ],
)
def test_an_unclear_head_is_rejected(text: bytes) -> None:
    found = read(text)
    assert isinstance(found, Refusal)
    assert found.status in (400, 405, 417, 431, 501, 505)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a/b", "/a/b"),
        (b"/a/./b", "/a/b"),
        (b"/a/../b", "/b"),
        (b"/../../b", "/b"),
        (b"/a/..", "/"),
        (b"/a/b/..", "/a/"),
        (b"/a/.", "/a/"),
        (b"/a/%2e%2E/b", "/b"),
        (b"/a/.%2e", "/"),
        (b"/a..b/.c/..d", "/a..b/.c/..d"),
        (b"/a?x=/../b", "/a"),
        (b"/", "/"),
    ],
)
def test_dot_segments_are_resolved_before_routes_are_matched(target: bytes, path: str) -> None:
    found = read(b"GET %b HTTP/1.1\r\nhost: a" % target)
    assert isinstance(found, heads.Head)
    assert found.path == path
    assert found.target.partition(b"?")[2] == target.partition(b"?")[2]


@given(st.lists(st.sampled_from(["a", ".", "..", "%2e", "%2E.", "", "b.c"]), min_size=1, max_size=8))
def test_no_path_leaves_its_prefix(segments: list[str]) -> None:
    found = read(b"GET /%b HTTP/1.1\r\nhost: a" % "/".join(segments).encode())
    assert isinstance(found, heads.Head)
    plain = found.path.lower().replace("%2e", ".").split("/")
    assert ".." not in plain
    assert "." not in plain
    assert found.path.startswith("/")


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(heads.read(data + b"\r\n\r\n", LIMITS), heads.Head | Refusal)


# -- bodies


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def fed(body: Body, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """The payload, and what follows the body."""
    payload, rest = b"", b""
    for piece in pieces:
        if body.is_complete:
            rest += piece
        else:
            payload += body.feed(piece)
            rest += body.rest if body.is_complete else b""
    return payload, rest


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
CUTS = st.lists(st.integers(0, 400), max_size=8)


@given(CHUNKS, CUTS, st.sampled_from([b"", b"x: y\r\n", b"a: b\r\nc:\r\n"]), st.binary(max_size=20))
def test_chunks_are_read_however_they_are_cut(chunks, cuts, trailers, after) -> None:
    encoded = b"".join(b"%x;e=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    body = Body(0, is_chunked=True)
    payload, rest = fed(body, split(encoded + b"0\r\n" + trailers + b"\r\n" + after, cuts))
    assert (payload, rest) == (b"".join(chunks), after)
    assert body.is_complete


@given(st.binary(max_size=60), st.binary(max_size=20), CUTS)
def test_a_length_is_counted_however_it_is_cut(content, after, cuts) -> None:
    body = Body(len(content), is_chunked=False)
    assert fed(body, split(content + after, cuts)) == (content, after)


@given(
    st.lists(
        st.sampled_from([b"0", b"1", b"a", b"\r", b"\n", b"\r\n", b";", b":", b" ", b"-", b"x"]), max_size=14
    )
)
def test_what_is_accepted_is_what_llhttp_reads(parts: list[bytes]) -> None:
    """Whatever this parser accepts, llhttp accepts with the same payload."""
    data = b"".join(parts)
    body = Body(0, is_chunked=True)
    try:
        payload = body.feed(data)
    except FramingError:
        return
    if not body.is_complete or body.rest:
        return
    assert _by_llhttp(data) == payload


def _by_llhttp(data: bytes) -> bytes:
    class Reading:
        payload, is_complete = b"", False

        def on_body(self, data: bytes) -> None:
            self.payload += data

        def on_message_complete(self) -> None:
            self.is_complete = True

    reading = Reading()
    parser = httptools.HttpRequestParser(reading)
    parser.feed_data(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + data)
    assert reading.is_complete
    return reading.payload


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"1\nx",
        b"-1\r\n",
        b"0x1\r\n",
        b"1 x\r\n",
        b"1\r\nxx\r\n",
        b"\r\n",
        b"0\r\nbad trailer\r\n\r\n",
        b"1" * 5000,
        b"1;" + b"e" * 5000,
        b"ffffffffffffffffff\r\n",
    ],
)
def test_unclear_chunks_are_rejected(data: bytes) -> None:
    with pytest.raises(FramingError):
        Body(0, is_chunked=True).feed(data)


def test_framing_cannot_outgrow_the_body() -> None:
    data = (b"1;" + b"e" * 100 + b"\r\nx\r\n") * 1000
    with pytest.raises(FramingError):
        Body(0, is_chunked=True).feed(data)


# -- connections


async def test_a_head_without_an_end_is_rejected(start_front, start_endpoint, service, to):
    front, endpoint = await start_front(clients_max_head_bytes=1024), await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nx: " + b"y" * 2000)
    assert (await client.response()).status == 431
    assert await client.is_closed()


async def test_a_smuggled_request_is_never_sent(front, start_endpoint, service, to):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /secret HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    assert (await client.response()).status == 400
    assert await client.is_closed()
    assert not endpoint.calls


async def test_bytes_behind_a_broken_body_reach_nobody(front, endpoint, service, to, eventually):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxx\r\n")
    assert (await client.response()).status == 400
    assert await client.is_closed()
    await eventually(lambda: not front.gateway.shell.clients.all)


async def test_connections_are_limited_with_those_of_the_other_port(start_front, start_endpoint, service, to):
    front, endpoint = await start_front(clients_max_connections=1), await start_endpoint()
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    busy = await front.connect()
    busy.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    call = await endpoint.call()
    turned_away = await front.connect()
    assert (await turned_away.response()).status == 503
    call.answer(b"ok")
    assert (await busy.response()).status == 200


async def test_what_is_sent_ahead_is_bounded(front, endpoint, service, to, eventually):
    await front.route({"backendRefs": [to("web")]}, objects_=service("web", endpoint))
    client = await front.connect()
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    call = await endpoint.call()
    client.writer.write(b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n" * 100_000)
    [connection] = front.gateway.shell.clients.all
    await eventually(lambda: len(connection._incoming.ahead) > 64 * 1024)
    assert len(connection._incoming.ahead) < 1 << 20
    call.answer(b"first")
    assert (await client.response()).body == b"first"
    (await endpoint.call()).answer(b"next")
    assert (await client.response()).body == b"next"


async def test_tiny_chunks_take_turns(front, start_endpoint, service, to):
    """A megabyte of chunks with one byte each does not hold up other clients, and arrives whole."""
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    slow, other = await front.connect(), await front.connect()
    slow.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    slow.send(b"1\r\nx\r\n" * 170_000 + b"0\r\n\r\n")
    uploads = front.gateway.shell.services.turns.uploads
    turns = 0
    while not any(len(call.body) > 2 for call in endpoint.calls):
        turns += bool(uploads.statistics()["waiting"])
        other.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        assert (await other.response()).status == 200
    assert (await slow.response()).status == 200
    assert turns > 1
    assert max(len(call.body) for call in endpoint.calls) == 170_000


async def test_thousands_of_pipelined_requests_are_answered_in_turns(front):
    await front.route({}, hosts=["shop.example"])
    client = await front.connect()
    client.writer.write(b"GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n" * 5000)
    for _ in range(5000):
        assert (await client.response()).status == 500
