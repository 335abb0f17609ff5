"""A request is parsed the same wherever the network cuts it."""

import asyncio
import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry

pytestmark = [pytest.mark.every_loop, pytest.mark.usefixtures("endless_turns")]

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
PLAIN = (
    b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer sk-1\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
CHUNKED = (
    b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer sk-1\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext=1\r\n%b\r\n%x\r\n%b\r\n0\r\nx-trailer: 1\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
)
UPGRADING = PLAIN.replace(
    b"Content-Type",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nContent-Type",
)


@pytest.mark.parametrize("sent", [PLAIN, CHUNKED, UPGRADING], ids=["plain", "chunked", "upgrading"])
async def test_every_cut_in_two_gives_the_same_request(gateway, endpoint, sent):
    """Cut in two at any byte, a request reaches the endpoint unchanged, on one kept connection."""
    heads = []

    def note(call):
        heads.append([(k, v) for k, v in call.headers if k != "x-request-id"])
        call.answer(json.dumps([call.method, call.target, call.body.decode()]).encode())

    endpoint.behave = note
    client = await gateway.connect()
    protocol = next(iter(gateway.shell.clients.all))
    for at in range(1, len(sent)):
        # Given to the protocol as its transport would give it, so that the cut is where it should be.
        protocol.data_received(sent[:at])
        protocol.data_received(sent[at:])
        response = await client.response()
        assert response.json == ["POST", "/v1/chat/completions?x=1", BODY.decode()]
    assert all(head == heads[0] for head in heads)
    assert len(gateway.shell.clients.all) == 1


async def test_byte_for_byte_over_a_socket(gateway, endpoint):
    """A client that sends single bytes is served."""
    client = await gateway.connect()
    client.writer.transport.get_extra_info("socket").setsockopt(6, 1, 1)  # TCP_NODELAY
    for place in range(len(CHUNKED)):
        client.send(CHUNKED[place : place + 1])
        await asyncio.sleep(0)
    call = await endpoint.call()
    call.answer()
    assert call.body == BODY
    assert (await client.response()).status == 200


class _Transport(asyncio.Transport):
    """Keeps what is written: for tests that need no network."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data):
        assert not self.closing
        self.written += data

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def pause_reading(self):
        pass

    resume_reading = pause_reading

    def write_eof(self):
        self.closing = True

    def close(self):
        self.closing = True

    abort = close

    def is_closing(self):
        return self.closing


def _answers(parts: list[bytes]) -> bytes:
    """What the gateway writes when it is given these parts and knows no model."""

    async def run():
        shell = Shell(GatewaySettings(), Recorder(Registry(), None), asyncio.get_running_loop())
        shell.services.identities.request_id = lambda: b"id"
        shell.plane.is_ready = True
        transport, connection = _Transport(), ClientConnection(shell.services, shell.clients)
        connection.connection_made(transport)
        for part in parts:
            connection.data_received(part)
        connection.connection_lost(None)
        await shell.close()
        return transport.written

    return asyncio.run(run())


PIPELINED = (
    PLAIN + b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n" + CHUNKED + UPGRADING + b"garbage\r\n\r\n" + PLAIN
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.integers(1, len(PIPELINED) - 1), max_size=12))
def test_any_cuts_of_a_pipeline_give_the_same_answers(cuts):
    """Requests sent ahead, and the garbage after them, are answered alike however they are cut."""
    edges = [0, *sorted(set(cuts)), len(PIPELINED)]
    parts = [PIPELINED[a:b] for a, b in itertools.pairwise(edges)]
    expected = _answers([PIPELINED])
    assert expected.count(b"HTTP/1.1 404") == 3
    assert expected.count(b"HTTP/1.1 200") == expected.count(b"HTTP/1.1 400") == 1
    assert _answers(parts) == expected


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([PLAIN, CHUNKED, UPGRADING])), max_size=5))
def test_no_bytes_raise_out_of_the_protocol(parts):
    """Whatever a client sends is answered or waited for; nothing escapes to the event loop."""
    written = _answers(parts)
    assert written == b"" or written.startswith(b"HTTP/1.1 ")
