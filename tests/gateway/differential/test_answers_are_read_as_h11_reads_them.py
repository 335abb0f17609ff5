"""The client gets exactly what h11 reads in the endpoint's bytes, or nothing.

The gateway may reject more than h11 does: then the client gets an error, or its connection is closed. One
difference is intended: the reason phrase of a status is not checked, because it is not forwarded.
"""

import asyncio
import itertools
import random
import re

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.request import HOP_BY_HOP, RESERVED, nominated
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.telemetry import Registry

pytestmark = pytest.mark.usefixtures("endless_turns")

REQUEST = b'POST /v1/completions HTTP/1.%d\r\nhost: g\r\ncontent-length: 13\r\n\r\n{"model":"m"}'


class _Transport(asyncio.Transport):
    """Keeps what is written, and how it ended."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = self.aborted = False

    def get_extra_info(self, name, default=None):
        return self if name == "socket" else default

    def setsockopt(self, *_):
        pass

    def write(self, data):
        assert not self.is_closing()
        self.written += data

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    resume_reading = pause_reading

    def write_eof(self):
        self.closed = True

    close = write_eof

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.closed or self.aborted


def _passed_on(parts: list[bytes], *, http_1_0: bool) -> _Transport:
    """What the client gets when an endpoint sends these parts and hangs up."""

    async def run():
        loop = asyncio.get_running_loop()
        shell = Shell(
            GatewaySettings().replace(endpoints_retries=0), Recorder(Registry(), None), loop, random.Random(1)
        )
        key = api.ObjectRef("ModelServer", "default", "pool")
        route = routing.Route(
            key=api.ObjectRef("ModelRoute", "default", "route"),
            name="default/route",
            model="m",
            adapters=(),
            rules=(routing.Rule("rule", None, (routing.Target(key, 100),)),),
            created="2026-01-01T00:00:00Z",
        )
        pool = routing.Pool(key=key, endpoints=(routing.Endpoint("default/pod", "127.0.0.1", 1),))
        shell.use(routing.Snapshot(models={"m": (route,)}, adapters={}, pools={key: pool}))
        shell.plane.is_ready = True
        (load,) = shell.plane.pools[key].loads
        connections = shell.services.connections_to(shell.plane.pools[key], load)
        upstream, to_endpoint = UpstreamConnection(connections), _Transport()
        upstream.connection_made(to_endpoint)
        connections.give_back(upstream)
        client, to_client = ClientConnection(shell.services, shell.clients), _Transport()
        client.connection_made(to_client)
        client.data_received(REQUEST % (0 if http_1_0 else 1))
        for part in parts:
            if not to_endpoint.is_closing():
                upstream.data_received(part)
        upstream.connection_lost(None)
        client.connection_lost(None)
        assert load.requests == 0
        await shell.close()
        return to_client

    return asyncio.run(run())


class _Read:
    """What h11 takes bytes for, of a server that hangs up behind them."""

    def __init__(self, data: bytes, *, ended: bool = True) -> None:
        self.head: h11.Response | None = None
        self.body = b""
        self.is_complete = self.is_invalid = False
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method="POST", target="/", headers=[("host", "g"), ("content-length", "0")]))
        parser.send(h11.EndOfMessage())
        if data:  # none would be the end
            parser.receive_data(data)
        try:
            while not self.is_complete:
                event = parser.next_event()
                if isinstance(event, h11.Response):
                    self.head = event
                elif isinstance(event, h11.Data):
                    self.body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    self.is_complete = True
                elif event is h11.NEED_DATA and ended:
                    ended = False
                    parser.receive_data(b"")
                elif not isinstance(event, h11.InformationalResponse):
                    break
        except h11.RemoteProtocolError:
            self.is_invalid = True
        self.rest = parser.trailing_data[0]
        """Behind the answer."""


def _without_reasons(data: bytes) -> bytes:
    """The same heads, without what is written behind their statuses."""
    heads = b""
    while found := re.match(rb"(HTTP/1\.[01] [0-9]{3})(?: [^\r\n]*)?(?=\r\n)", data):
        head, end, data = data.partition(b"\r\n\r\n")
        heads += found[1] + head[found.end() :] + end
        if found[1][9:10] != b"1":
            break
    return heads + data


def _kept(head: h11.Response) -> list[tuple[bytes, bytes]]:
    """The headers of an endpoint that a client is to get."""
    headers = [(name, value.strip()) for name, value in head.headers]
    dropped = HOP_BY_HOP | nominated(headers) | {b"x-request-id"}
    if head.status_code == 204:
        dropped |= {b"content-length"}
    return [header for header in headers if header[0] not in dropped and not header[0].startswith(RESERVED)]


BODY = b"hello, world!"
STATUSES = (b"200 OK", b"200 OK", b"200", b"404 Not Found", b"204 No Content", b"304 Not Modified", b"500 ")
NAMES = (
    b"x-a",
    b"Content-Type",
    b"connection",
    b"transfer-encoding",
    b"content-length",
    b"x-headgate-a",
    b"te",
)
VALUES = (
    b"b",
    b"",
    b"close",
    b"keep-alive, x-a",
    b"chunked",
    b"13",
    b"0",
    b"gzip",
    b"text/event-stream",
    b"upgrade",
)
FIELDS = st.lists(
    st.builds(
        lambda name, value: b"%b: %b\r\n" % (name, value), st.sampled_from(NAMES), st.sampled_from(VALUES)
    ),
    max_size=2,
)
BODIES = (
    b"content-length: 13\r\n\r\n" + BODY,
    b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\n%b\r\n8\r\n%b\r\n0\r\nx-t: 1\r\n\r\n" % (BODY[:5], BODY[5:]),
    b"\r\n" + BODY,
    b"content-length: 0\r\n\r\n",
)
WHOLE = st.builds(
    lambda interim, version, status, fields, body: (
        interim + b"HTTP/%b %b\r\n%b%b" % (version, status, b"".join(fields), body)
    ),
    st.sampled_from((b"", b"", b"", b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n")),
    st.sampled_from((b"1.1", b"1.1", b"1.1", b"1.0")),
    st.sampled_from(STATUSES),
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
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100\r\n",
    ),
    *(
        b"content-length: 5\r\n",
        b"transfer-encoding: chunked\r\n",
        b"connection: x-a\r\n",
        b"_",
        b"2",
        b"evil",
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(PIECES)), max_size=3)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(WHOLE, EDITS, st.lists(st.floats(0, 1), max_size=4), st.booleans())
def test_same_answer(data, edits, cuts, http_1_0):
    """An answer that is damaged, or cut by the network, is the same to the client as to h11, or is none."""
    for at, taken, piece in edits:
        place = int(at * len(data))
        data = data[:place] + piece + data[place + taken :]
    edges = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    parts = [data[a:b] for a, b in itertools.pairwise(edges) if a < b]
    to_client = _passed_on(parts, http_1_0=http_1_0)
    seen = _Read(to_client.written, ended=not to_client.aborted)
    meant = _Read(_without_reasons(data))
    assert not seen.is_invalid
    if seen.head is None or b'"upstream_' in seen.body:
        return
    assert meant.head is not None
    assert seen.head.status_code == meant.head.status_code
    assert _kept(seen.head) == _kept(meant.head)
    assert meant.body.startswith(seen.body)
    if seen.is_complete:
        assert meant.is_complete
        assert seen.body == meant.body


@given(WHOLE.filter(lambda data: data.count(b"ength") + data.count(b"oding") <= 1), st.booleans())
def test_valid_answers_are_passed_on(data, http_1_0):
    """Not everything is refused: what has one framing, which no other field disturbs, arrives."""
    to_client = _passed_on([data], http_1_0=http_1_0)
    meant = _Read(data)
    is_odd = b"HTTP/1.0" in data and b"oding: chunked" in data
    if meant.is_complete and not meant.rest and not is_odd and b"304" not in data and b"204" not in data:
        assert _Read(to_client.written).body == meant.body
