"""Whatever a client sends, every request ends with a response, a refusal, or the end of its connection."""

import asyncio
import json
import logging
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.telemetry import Registry

pytestmark = pytest.mark.usefixtures("endless_turns")

SETTINGS = GatewaySettings().replace(
    endpoints_retries=0,
    clients_trusted_networks=("127.0.0.1",),
    cors_origins=("https://a.example",),
    clients_allowed_hosts=("g", "*.example"),
    clients_max_pipelined=2,
)


class _Transport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.written = b""
        self.closing = False

    def get_extra_info(self, name, default=None):
        return {"peername": ("127.0.0.1", 1), "socket": self}.get(name, default)

    def setsockopt(self, *_):
        pass

    def write(self, data):
        assert not self.closing
        self.written += data

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    resume_reading = pause_reading

    def write_eof(self):
        self.closing = True

    close = abort = write_eof

    def is_closing(self):
        return self.closing


class _Lines:
    """An access log in memory."""

    def __init__(self):
        self.written: list[str] = []
        self.add = self.written.append

    def flush(self):
        pass


async def _send(parts: list[bytes], answers: list[bytes], lines: _Lines, log_format: str) -> bytes:
    """What a client gets for these parts, and an endpoint that sends these answers."""
    loop = asyncio.get_running_loop()
    shell = Shell(SETTINGS, Recorder(Registry(), lines, log_format), loop, random.Random(1))
    key = api.ObjectRef("ModelServer", "default", "pool")
    condition = routing.Rule("rule", None, (routing.Target(key, 100),))
    route = routing.Route(
        key=api.ObjectRef("ModelRoute", "default", "route"),
        name="default/route",
        model="m",
        adapters=("a",),
        rules=(condition,),
        created="2026-01-01T00:00:00Z",
    )
    endpoint = routing.Endpoint("default/pod", "127.0.0.1", 1)
    pool = routing.Pool(key=key, endpoints=(endpoint,), model="served")
    shell.use(routing.Snapshot(models={"m": (route,)}, adapters={"a": (route,)}, pools={key: pool}))
    shell.plane.is_ready = True
    state = shell.plane.pools[key]
    connections = shell.services.connections_to(state, state.loads[0])
    client, to_client = ClientConnection(shell.services, shell.clients), _Transport()
    client.connection_made(to_client)
    for part, answer in zip(parts, answers, strict=True):
        upstream = UpstreamConnection(connections)
        upstream.connection_made(_Transport())
        connections.give_back(upstream)
        client.data_received(part)
        client.sweep(shell.now())
        if upstream.usable:
            upstream.data_received(answer)
            upstream.connection_lost(None)
        await asyncio.sleep(0)
    client.connection_lost(None)
    assert shell.plane.ledger.statistics()["requests"] == 0
    await shell.close()
    return to_client.written


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m", "a", "", "x" * 300, "\ud83d\ude00", 'm"', None, 1]),
        "stream": st.sampled_from([True, False, None, "true", 1]),
        "stream_options": st.sampled_from([{}, None, {"include_usage": True}, [], "x"]),
        "messages": JSON,
        "prompt": JSON,
    },
)
BODIES = st.one_of(
    FIELDS.map(lambda fields: json.dumps(fields).encode()),
    st.sampled_from(
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"model":"m"',
            b'{"model":"m","model":"n"}',
            b"\xef\xbb\xbf{}",
            b"\xff\xfe",
        ]
    ),
    st.just(b'{"model":"m","x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    st.sampled_from(
        [b"--b\r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n--b--\r\n", b"--b\r\n\r\n--b--"]
    ),
    st.binary(max_size=60),
)
TOKENS = st.sampled_from(
    (
        b"",
        b"g",
        b"a.example",
        b"https://a.example",
        b"10.0.0.1, 127.0.0.1",
        b"for=1.2.3.4",
        b"1",
        b"keep-alive, x-a",
    )
)
VALUES = TOKENS | st.sampled_from(
    (
        b"application/json",
        b"multipart/form-data; boundary=b",
        b"100-continue",
        b"h2c",
        b"\xff\xfe",
        b"00-" + b"a" * 52,
    )
)
NAMES = (
    *(b"content-type", b"origin", b"x-forwarded-for", b"forwarded", b"connection", b"upgrade", b"expect"),
    *(b"x-request-id", b"x-headgate-explain", b"traceparent", b"access-control-request-method", b"accept"),
    *(b"access-control-request-headers", b"content-encoding", b"authorization", b"x-forwarded-proto"),
)
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4)
PATHS = (
    *(b"/v1/chat/completions", b"/v1/completions", b"/v1/messages", b"/v1/responses", b"/v1/models"),
    *(b"/v1/audio/transcriptions", b"/v1/models/m", b"/v1/models/%ff%zz", b"/healthz", b"/", b"/?\\"),
)
TARGETS = st.sampled_from((*PATHS, b"*", b"http://g/v1"))
METHODS = st.sampled_from((b"POST", b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"DELETE"))


def _request(method, target, host, headers, body) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    length = b"content-length: %d\r\n" % len(body)
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b\r\n%b" % (method, target, host, lines, length, body)


HOSTS = st.sampled_from((b"g", b"g", b"g", b"a.example", b"evil"))
REQUESTS = st.builds(_request, METHODS, TARGETS, HOSTS, HEADERS, BODIES)
ANSWERS = st.sampled_from(
    [
        b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n{"model":"served"}',
        b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n{"model":"serv',
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\ndata: [DONE]\n\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        b'1a\r\ndata: {"model":"served"}\n\n\r\n5\r\ndata:\r\n0\r\n\r\n',
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        b"5\r\ndata:\r\n",
        b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 204 No\r\n\r\n",
        b"garbage\r\n\r\n",
        b"",
    ]
)


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


@settings(max_examples=80, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.tuples(REQUESTS, ANSWERS), min_size=1, max_size=3), st.sampled_from(["text", "json"]))
def test_requests_of_any_kind(errors, exchanges, log_format):
    """Requests that are valid HTTP, with anything in them, and endpoints that answer them anyhow.

    Each makes a whole line of the access log, and none can forge another.
    """
    errors.clear()
    lines = _Lines()
    sent, answers = [sent for sent, _ in exchanges], [answer or b"\r" for _, answer in exchanges]
    written = asyncio.run(_send(sent, answers, lines, log_format))
    assert errors == []
    assert written == b"" or written.startswith(b"HTTP/1.1 ")
    for line in lines.written:
        assert line.endswith("\n")
        assert line[:-1].isprintable()
        if log_format == "json":
            assert json.loads(line)["status_code"] >= 200
