"""Our client gets from grpcio's server what grpcio's client gets from it."""

import asyncio

import grpc
import pytest
from rpc_calls import Received

from headgate import rpc

pytestmark = pytest.mark.every_loop


class Service(grpc.GenericRpcHandler):
    """Echoes streams; refuses, or waits for ever, by the name of the method."""

    def service(self, details):
        method = details.method.rpartition("/")[2]
        self.metadata = dict(details.invocation_metadata)
        found = {"Echo": self.echo, "Refuse": self.refuse, "Wait": self.wait, "Early": self.early}.get(method)
        return None if found is None else grpc.stream_stream_rpc_method_handler(found)

    async def echo(self, requests, context):
        await context.send_initial_metadata((("x-first", "1"),))
        async for message in requests:
            yield message

    async def refuse(self, requests, context):
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "nicht für dich: 100 %")
        yield b""

    async def wait(self, requests, context):
        self.remaining_s = context.time_remaining()
        await asyncio.Event().wait()
        yield b""

    async def early(self, requests, context):
        yield b"enough"


@pytest.fixture
async def grpcio_server():
    """A server of grpcio, and its port."""
    server, service = grpc.aio.server(), Service()
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield service, port
    await server.stop(0)


@pytest.mark.parametrize("sizes", [[0], [1], [5, 0, 7], [16_379], [16_380], [100_000, 3, 1 << 20], [1] * 200])
async def test_messages_come_back_as_they_were_sent(grpcio_server, connect, sizes):
    """Whatever their sizes."""
    _, port = grpcio_server
    client = await connect(port)
    received = Received()
    call = client.call("/test.Test/Echo", received)
    sent = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    for each in sent:
        call.send(each)
    call.half_close()
    assert await received.ended == rpc.Status(0, "")
    assert received.messages == sent
    assert call.is_closed
    assert (b"x-first", b"1") in call.headers
    assert client.calls == 0


async def test_many_calls_share_a_connection(grpcio_server, connect):
    """Each gets its own messages."""
    _, port = grpcio_server
    client = await connect(port)
    all_received = []
    for n in range(100):
        received = Received()
        call = client.call("/test.Test/Echo", received)
        call.send(b"%d" % n)
        call.send(bytes(n * 1000))
        call.half_close()
        all_received.append(received)
    for n, received in enumerate(all_received):
        assert (await received.ended).code == 0
        assert received.messages == [b"%d" % n, bytes(n * 1000)]


async def test_statuses_arrive_with_their_messages(grpcio_server, connect):
    """Of methods that refuse, and of those that do not exist."""
    _, port = grpcio_server
    client = await connect(port)
    received = Received()
    client.call("/test.Test/Refuse", received).half_close()
    assert await received.ended == rpc.Status(rpc.status.PERMISSION_DENIED, "nicht für dich: 100 %")
    received = Received()
    client.call("/test.Test/Nothing", received).half_close()
    assert (await received.ended).code == rpc.status.UNIMPLEMENTED


async def test_a_call_ends_at_its_deadline(grpcio_server, connect):
    """Which the server is told with the call, together with the metadata."""
    service, port = grpcio_server
    client = await connect(port)
    received = Received()
    client.call("/test.Test/Wait", received, timeout_s=0.2, metadata=((b"x-mine", b"7"),))
    assert (await received.ended).code == rpc.status.DEADLINE_EXCEEDED
    assert 0.0 < service.remaining_s <= 0.21
    assert service.metadata["x-mine"] == "7"
    assert client.is_usable


async def test_a_server_may_end_a_call_before_the_client_has(grpcio_server, connect):
    """What the client still sends is dropped."""
    _, port = grpcio_server
    client = await connect(port)
    received = Received()
    call = client.call("/test.Test/Early", received)
    assert (await received.ended).code == 0
    assert received.messages == [b"enough"]
    call.send(b"late")
    call.half_close()
    assert client.calls == 0
    assert client.is_usable


async def test_a_cancelled_call_hears_nothing(grpcio_server, connect, eventually):
    """The connection goes on."""
    _, port = grpcio_server
    client = await connect(port)
    received = Received()
    client.call("/test.Test/Wait", received).cancel()
    assert client.calls == 0
    other = Received()
    call = client.call("/test.Test/Echo", other)
    call.send(b"x")
    call.half_close()
    assert (await other.ended).code == 0
    assert received.status is None


async def test_calls_end_with_their_connection(grpcio_server, connect):
    """As unavailable."""
    _, port = grpcio_server
    client = await connect(port)
    received = Received()
    client.call("/test.Test/Wait", received)
    client.close()
    assert (await received.ended).code == rpc.status.UNAVAILABLE
    with pytest.raises(rpc.CallError, match="connection has ended"):
        client.call("/test.Test/Echo", Received())
