"""The gateway accepts only what h11 reads as the same request, and rejects whatever h11 rejects.

Three differences are intended. The gateway accepts empty lines before a request (RFC 9112, 2.2), several
spaces in a request line (3), and RTSP/ and ICE/ instead of HTTP/, because llhttp does not distinguish them.
All are forwarded as plain HTTP/1.1, so h11 has to agree once they are written in that form. The gateway may
reject more than h11 does.
"""

import asyncio
import itertools
import re

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.hosts import split_target
from headgate.gateway.listener import ClientConnection
from headgate.gateway.request import Request
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry

pytestmark = [pytest.mark.usefixtures("endless_turns"), pytest.mark.counts_calls]

ABOUT_UPGRADES = {b"connection", b"upgrade", b"http2-settings"}
"""Taken out of a request that offers another protocol."""

Message = tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]
"""Method, target, headers, body."""


class _Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.written = b""
        self.closing = False

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data):
        self.written += data

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def pause_reading(self):
        pass

    resume_reading = pause_reading

    def write_eof(self):
        self.closing = True

    close = abort = write_eof

    def is_closing(self):
        return self.closing


class _Connection(ClientConnection):
    """Keeps its requests instead of serving them."""

    def __init__(self, services, clients):
        super().__init__(services, clients)
        self.taken: list[Request] = []

    def take(self, request):
        self.taken.append(request)


def _by_the_gateway(parts: list[bytes]) -> tuple[list[Request], bytes]:
    """The requests, and what the client was told."""

    async def run():
        shell = Shell(GatewaySettings(), Recorder(Registry(), None), asyncio.get_running_loop())
        transport, connection = _Transport(), _Connection(shell.services, shell.clients)
        connection.connection_made(transport)
        for part in parts:
            connection.data_received(part)
        connection.connection_lost(None)
        await shell.close()
        return connection.taken, transport.written

    return asyncio.run(run())


def _one_by_h11(data: bytes) -> tuple[Message, bytes] | None:
    """The first request and what is behind it; None if it is not complete. Raises RemoteProtocolError."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    request, body = None, b""
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            headers = [(name, value.strip()) for name, value in request.headers]
            return (request.method, request.target, headers, body), parser.trailing_data[0]
        else:
            return None


def _as_http_writes_it(data: bytes) -> bytes:
    """The same bytes, without the differences that are wanted."""
    first, end, rest = data.lstrip(b"\r\n").partition(b"\r\n")
    first = re.sub(rb"(RTSP|ICE)(/\d\.\d)$", rb"HTTP\2", first)
    return re.sub(rb" +", rb" ", first) + end + rest


def _plain(request: Request) -> Message:
    headers = [(name, value.strip()) for name, value in request.headers]
    return request.method, request.target, headers, request.body


def _compare(request: Request, by_h11: Message) -> None:
    method, target, headers, body = by_h11
    _, target = split_target(method, target)
    expected = (method, target, headers, body)
    got = _plain(request)
    if {name for name, _ in headers} & {b"upgrade"}:
        got, expected = _without_upgrades(got), _without_upgrades(expected)
    assert got == expected


def _without_upgrades(message: Message) -> Message:
    method, target, headers, body = message
    return method, target, [header for header in headers if header[0] not in ABOUT_UPGRADES], body


def _is_one_message(request: Request) -> None:
    """What is sent to an endpoint is one request, with that body and nothing behind it."""
    (method, target, headers, body), rest = _one_by_h11(request.message(request.body, b"id"))
    assert (method, target, body, rest) == (request.method, request.target, request.body, b"")
    names = [name for name, _ in headers]
    assert names.count(b"host") == names.count(b"content-length") == 1
    assert not {b"transfer-encoding", b"connection", b"upgrade", b"te", b"expect"} & set(names)


BODY = b'{"model":"m"}'
NAMES = (
    b"x-a",
    b"X-B",
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"connection",
    b"expect",
    b"upgrade",
)
VALUES = (
    b"b",
    b"",
    b"g",
    b"13",
    b" 13",
    b"0",
    b"chunked",
    b"Chunked",
    b"close",
    b"keep-alive",
    b"upgrade",
    b"h2c",
)
TARGETS = (
    b"/v1",
    b"/",
    b"/a?b=c&d",
    b"//x",
    b"/%00",
    b"http://g/v1",
    b"https://g",
    b"*",
    b"/a#b",
    b"g:80",
    b"/\\",
)
LINES = st.builds(
    lambda method, target, version: b"%b %b %b" % (method, target, version),
    st.sampled_from(
        (b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"CONNECT", b"PUT", b"QUERY", b"M-SEARCH")
    ),
    st.sampled_from(TARGETS),
    st.sampled_from((b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"RTSP/1.0")),
)
FIELDS = st.lists(
    st.builds(
        lambda name, value: b"%b: %b\r\n" % (name, value), st.sampled_from(NAMES), st.sampled_from(VALUES)
    ),
    max_size=2,
)
BODIES = (
    b"content-length: 13\r\n\r\n" + BODY,
    b"transfer-encoding: chunked\r\n\r\n5;a=b\r\n%b\r\n8\r\n%b\r\n0\r\nx-t: 1\r\n\r\n" % (BODY[:5], BODY[5:]),
    b"\r\n",
)
WHOLE = st.builds(
    lambda line, fields, body: b"%b\r\nhost: g\r\n%b%b" % (line, b"".join(fields), body),
    LINES,
    FIELDS,
    st.sampled_from(BODIES),
)
PIECES = (
    *(
        b"",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"\x0b",
        b",",
        b";",
        b"0",
        b"1",
        b"d",
        b"-",
        b"+",
    ),
    *(
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\r\n ",
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"chunked",
        b'"',
        b"#",
        b"@",
        b"ICE/1.0",
    ),
    *(
        b"content-length: 5\r\n",
        b"transfer-encoding: chunked\r\n",
        b"HTTP/1.1",
        b"host: h\r\n",
        b"_",
        b"/",
        b"g",
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(PIECES)), max_size=3)


def edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """With some bytes taken out and some put in."""
    for at, taken, piece in edits:
        place = int(at * len(data))
        data = data[:place] + piece + data[place + taken :]
    return data


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(WHOLE, min_size=1, max_size=3), EDITS, st.lists(st.floats(0, 1), max_size=4))
def test_same_requests(messages, edits, cuts):
    """Requests that are damaged, cut, and sent behind each other are the same to both, or refused."""
    data = edited(b"".join(messages), edits)
    taken, told = _by_the_gateway([data])
    edges = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    in_parts, told_in_parts = _by_the_gateway([data[a:b] for a, b in itertools.pairwise(edges) if a < b])
    assert [_plain(request) for request in in_parts] == [_plain(request) for request in taken]
    assert told_in_parts == told
    rest = data
    for request in taken:
        by_h11 = _one_by_h11(_as_http_writes_it(rest))
        assert by_h11 is not None, "the gateway sees an end where h11 waits"
        message, rest = by_h11
        _compare(request, message)
        _is_one_message(request)
