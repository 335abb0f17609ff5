"""C6: Services and pools with the appProtocol kubernetes.io/h2c get HTTP/2, all others HTTP/1.1."""

from __future__ import annotations

import asyncio

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection


class Http2(asyncio.Protocol):
    """An endpoint that answers each request with its method, path and body."""

    def __init__(self) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.requests: dict[int, tuple[dict[str, str], bytearray]] = {}

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, events.RequestReceived):
                self.requests[event.stream_id] = dict(event.headers), bytearray()
            elif isinstance(event, events.DataReceived):
                self.requests[event.stream_id][1].extend(event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, events.StreamEnded):
                self._answer(event.stream_id)
        self._flush()

    def _answer(self, stream: int) -> None:
        headers, body = self.requests.pop(stream)
        told = f"{headers[':method']} {headers[':path']} {len(body)} {headers.get('x-own')}".encode()
        length = str(len(told))
        self.h2.send_headers(stream, [(":status", "200"), ("content-length", length)])
        self.h2.send_data(stream, told, end_stream=True)

    def _flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


@pytest.fixture
async def http2(held_port):
    port = held_port()
    server = await asyncio.get_running_loop().create_server(Http2, "127.0.0.1", port, reuse_address=True)
    yield type("Endpoint", (), {"port": port})
    server.close()


async def test_a_service_gets_http2(front, http2, service, to):
    objects = service("web", http2, appProtocol="kubernetes.io/h2c")
    await front.route({"backendRefs": [to("web")]}, objects_=objects)
    assert (await front.ask("/a?b", x_own="1")).body == b"GET /a?b 0 1"
    assert (await front.ask("/a", "POST", b"x" * 300_000)).body == b"POST /a 300000 None"
    client = await front.connect()
    client.send(b"PUT /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert (await client.response()).body == b"PUT /c 3 None"


async def test_a_pool_gets_http2(front, http2, start_endpoint):
    plain = await start_endpoint(b"plain")
    pools = front.pool("new", http2, http2=True), front.pool("old", plain)
    rules = [
        {"matches": [{"path": {"value": path}}], "backendRefs": [pool]}
        for path, pool in zip(("/new", "/old"), pools, strict=True)
    ]
    await front.route(*rules)
    assert (await front.ask("/new", "POST", b'{"model":"m"}')).body == b"POST /new 13 None"
    assert (await front.ask("/old", "POST", b'{"model":"m"}')).body == b"plain"


async def test_a_body_that_is_too_long_for_one_piece_is_refused(start_front, http2, service, to):
    front = await start_front(clients_max_body_bytes=1024)
    objects = service("web", http2, appProtocol="kubernetes.io/h2c")
    await front.route({"backendRefs": [to("web")]}, objects_=objects)
    assert (await front.ask("/a", "POST", b"x" * 2000)).status == 413
