"""Faults of HTTP/2 streams and connections: requests are retried or get an error, and nothing leaks."""

import asyncio
import types

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from headgate import engine_client, loop_turns
from headgate.dataplane.http2.translator import MAX_UNREAD_BYTES, Translator
from headgate.gateway.connections import speaking_http2
from headgate.loop_turns import Turns

pytestmark = pytest.mark.every_loop

NEVER = 0x7FFFFFFF
ANSWER_BYTES = 8 << 20


@pytest.fixture
async def pair(start_gateway, start_http2_endpoint):
    """A gateway, and two endpoints of which the first is asked first."""
    endpoints = [await start_http2_endpoint(), await start_http2_endpoint()]
    gateway = await start_gateway()
    gateway.serve(endpoints, http2=True)
    return gateway, *endpoints


@pytest.fixture
async def alone(start_gateway, start_http2_endpoint):
    """A gateway, and one endpoint."""
    endpoint = await start_http2_endpoint()
    gateway = await start_gateway()
    gateway.serve([endpoint], http2=True)
    return gateway, endpoint


def failed(gateway, reason):
    return gateway.metric("headgate_gateway_attempts_failed_total", reason=reason)


FAULTS = {
    "reset": (lambda call: call.reset(), "reset"),
    "refused": (lambda call: call.reset(7), "reset"),
    "not taken": (lambda call: call.connection.goaway(0), "reset"),
    "closed": (lambda call: call.connection.transport.abort(), "reset"),
    "no frames": (lambda call: call.connection.transport.write(b"\0" * 30), "reset"),
    "too long a frame": (lambda call: call.connection.transport.write(b"\xff" * 30), "reset"),
    "HTTP/1.1": (lambda call: call.connection.transport.write(b"HTTP/1.1 200 OK\r\n\r\n"), "reset"),
    "no status": (lambda call: call.head(99), "reset"),
    "503": (lambda call: call.answer(b"", status=503), "status_503"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)
async def test_a_request_without_an_answer_goes_to_another_endpoint(pair, fault, reason):
    """Whatever became of its stream or connection."""
    gateway, first, second = pair
    client = await gateway.connect()
    client.post()
    fault(await first.call())
    call = await second.call()
    call.answer(b"served")
    response = await client.response()
    assert (response.status, response.body) == (200, b"served")
    assert failed(gateway, reason) == 1


async def test_a_stream_that_is_reset_amid_its_answer_ends_with_an_error(alone):
    """It is not tried again, as the client has a part of it."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "hello", "stream": True})
    call = await endpoint.call()
    call.head(content_type="text/event-stream")
    call.write(b'data: {"choices":[]}\n\n')
    response = await client.head()
    await client.reader.readuntil(b"[]}\n\n\r\n")
    call.reset()
    rest = await client.read_body(response)
    assert b"the response broke off" in rest.body
    assert "the endpoint reset the request (INTERNAL_ERROR)" in gateway.log_lines()[0]


@pytest.mark.parametrize("has_begun", [True, False])
async def test_an_answer_shorter_than_it_says_is_no_success(alone, has_begun):
    """It is cut off, so that nobody takes it for complete; or refused, if nothing of it was passed on."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.head(content_length="100")
    if has_begun:
        call.write(b"short")
        response = await client.head()
        assert await client.reader.readexactly(5) == b"short"
        call.end()
        assert (response.status, await client.rest()) == (200, b"")
    else:
        call.end()
        assert (await client.response()).status == 502


async def test_an_endpoint_that_leaves_ends_what_it_took(alone, eventually):
    """GOAWAY, as of a Pod that is to be replaced (B54): its answer comes whole, the next is another's."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.head()
    call.write(b"first ")
    (connection,) = endpoint.connections
    connection.goaway(NEVER)
    connection.goaway(call.id)
    call.write(b"second", end=True)
    assert (await client.response()).body == b"first second"
    await connection.lost
    client.post()
    (await endpoint.call()).answer(b"third")
    assert (await client.response()).body == b"third"
    assert len(endpoint.connections) == 2
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0


async def test_an_idle_connection_that_is_left_is_not_used_again(alone):
    """Neither is it kept open."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer()
    await client.response()
    (connection,) = endpoint.connections
    connection.goaway(1)
    await connection.lost
    client.post()
    (await endpoint.call()).answer()
    assert (await client.response()).status == 200
    (open_to,) = gateway.shell.all_connections()
    assert open_to.statistics() == {"open": 1, "idle": 1}


async def test_a_request_that_crosses_with_leaving_is_sent_anew(alone):
    """The endpoint did not look at it: it goes to the same one on another connection."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer()
    await client.response()
    client.post()
    late = await endpoint.call()
    late.connection.goaway(1)
    again = await endpoint.call()
    again.answer(b"served")
    assert (await client.response()).body == b"served"
    assert again.connection is not late.connection
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0


@pytest.mark.parametrize("code", [2, 8])
async def test_a_request_that_is_given_up_is_no_idle_connection_that_was_closed(alone, code):
    """Though it came on a connection that was used before: the endpoint has seen it, and has failed."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer()
    await client.response()
    client.post()
    (await endpoint.call()).reset(code)
    assert (await client.response()).json["error"]["code"] == "upstream_failed"
    assert failed(gateway, "reset") == 1
    assert len(endpoint.calls) == 2


async def test_a_request_that_is_refused_unseen_is_sent_anew(alone):
    """On another connection: the endpoint says that it did not look at it (RFC 9113, 8.7)."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer()
    await client.response()
    client.post()
    (await endpoint.call()).reset(7)
    (await endpoint.call()).answer(b"served")
    assert (await client.response()).body == b"served"
    assert failed(gateway, "reset") == 0


async def test_an_answer_of_an_endpoint_that_leaves_waits_for_its_client(alone, eventually):
    """As any other does: what a slow client does not read is not held."""
    gateway, endpoint = alone
    client = await gateway.connect(receive_buffer=4096)
    client.post()
    call = await endpoint.call()
    call.head()
    call.connection.goaway(call.id)
    call.write(bytes(ANSWER_BYTES), end=True)
    await eventually(lambda: [each for each in gateway.shell.clients.all if each.is_paused])
    for _ in range(100):  # meanwhile, others are served
        another = asyncio.create_task(gateway.ask())
        (await endpoint.call()).answer()
        await another
    assert call.connection.unsent_bytes > ANSWER_BYTES / 2
    client.close()
    await call.connection.lost


async def test_a_leaving_endpoint_is_asked_nothing_though_it_does_not_end_a_stream(alone):
    """Of which the client has all bytes that it was told of."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.head(content_length="2")
    call.connection.goaway(call.id)
    call.write(b"ok")
    assert (await client.response()).body == b"ok"
    client.post()
    again = await endpoint.call()
    again.answer(b"served")
    assert (await client.response()).body == b"served"
    assert again.connection is not call.connection
    await call.connection.lost
    assert failed(gateway, "reset") == 0


async def test_a_client_that_leaves_stops_its_endpoint(alone):
    """At once, amid the answer."""
    gateway, endpoint = alone
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "hello", "stream": True})
    call = await endpoint.call()
    call.head(content_type="text/event-stream")
    call.write(b"data: {}\n\n")
    await client.head()
    client.close()
    await call.connection.lost
    await gateway.idle()


@pytest.fixture
async def port_of_http_1():
    """Of a server that reads no HTTP/2."""

    async def refuse(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def test_an_endpoint_that_speaks_http_1_is_told(start_gateway, port_of_http_1):
    """The pool says otherwise: the log says what is wrong."""
    gateway = await start_gateway()
    gateway.serve([types.SimpleNamespace(port=port_of_http_1)], http2=True)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_failed")
    assert "the endpoint speaks HTTP/1.1, but its pool is set to HTTP/2" in gateway.log_lines()[0]


async def test_who_looks_at_an_endpoint_is_told_as_well(port_of_http_1):
    """Why there are no metrics of it."""
    client = engine_client.Client("127.0.0.1", port_of_http_1, None, "", http2=speaking_http2)
    with pytest.raises(
        engine_client.FetchError, match=r"the endpoint speaks HTTP/1\.1, but its pool is set to HTTP/2"
    ):
        await client.get("/metrics", "*/*", 1000, 30.0)
    client.close()


@pytest.fixture
def turns():
    """No turn of them comes."""
    loop = asyncio.new_event_loop()
    yield Turns(loop)
    loop.close()


class Unread(asyncio.Transport):
    """A socket whose other end reads nothing."""

    def __init__(self):
        super().__init__()
        self.written, self.is_aborted = 0, False

    def write(self, data):
        self.written += len(data)

    def get_write_buffer_size(self):
        return self.written

    def is_closing(self):
        return self.is_aborted

    def abort(self):
        self.is_aborted = True


def test_an_endpoint_that_reads_no_acknowledgements_is_left(turns):
    """It could ask for them without end: what waits for it is bounded."""
    translator, socket = Translator(asyncio.Protocol(), turns, turns), Unread()
    translator.connection_made(socket)
    translator.data_received(b"\0\0\0\x04\0\0\0\0\0")
    pings = b"\0\0\x08\x06\0\0\0\0\0abcdefgh" * 2
    translator.data_received(pings)
    assert not translator.is_closing()
    socket.written += MAX_UNREAD_BYTES
    translator.data_received(pings)
    assert (translator.is_closing(), socket.is_aborted) == (True, True)
    assert str(translator.error) == "the endpoint does not read the data that it requests"


class Busy(Unread):
    """Takes no more for now than any socket."""

    def write(self, data):
        super().write(data)
        if self.written > 1 << 16:
            self.translator.pause_writing()


def test_a_long_prompt_in_frames_of_any_length_waits_for_the_socket(turns):
    """It is not taken for acknowledgements that an endpoint does not read which agrees to such frames."""
    server = H2Connection(H2Configuration(client_side=False))
    server.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_FRAME_SIZE: (1 << 24) - 1,
            SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24,
        },
    )
    server.initiate_connection()
    server.increment_flow_control_window(1 << 24)
    socket = Busy()
    socket.translator = translator = Translator(asyncio.Protocol(), turns, turns)
    translator.connection_made(socket)
    translator.data_received(server.data_to_send())
    translator.write(b"POST / HTTP/1.1\r\nhost: g\r\n\r\n" + bytes(2 * MAX_UNREAD_BYTES))
    translator.data_received(b"\0\0\x08\x06\0\0\0\0\0abcdefgh")
    assert (translator.error, socket.written < 1 << 18) == (None, True)


async def test_frames_of_many_endpoints_take_turns(monkeypatch):
    """Where the frames of one endpoint take as long as a turn may, those of one are read in each turn."""
    monkeypatch.setattr(loop_turns, "TURN_S", 0.0)
    turns = Turns(asyncio.get_running_loop())
    sockets = [Eager() for _ in range(20)]
    for socket in sockets:
        translator = Translator(asyncio.Protocol(), turns, turns)
        translator.connection_made(socket)
        translator.data_received(b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\x08\x06\0\0\0\0\0abcdefgh" * 200)
    before = [socket.written for socket in sockets]
    await asyncio.sleep(0)
    served = [socket for socket, written in zip(sockets, before, strict=True) if socket.written > written]
    assert len(served) == 1


class Eager(Unread):
    """Reads everything, and may be paused."""

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass
