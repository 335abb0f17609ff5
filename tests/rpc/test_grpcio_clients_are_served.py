"""grpcio's client gets from our server what it gets from its own."""

import asyncio
import contextlib

import grpc
import pytest
from rpc_calls import Echo, all_handlers

from headgate import rpc

pytestmark = pytest.mark.every_loop


@pytest.fixture(autouse=True)
def _forget():
    all_handlers.clear()


async def both_ways(channel, path, messages, **options):
    """What one call with these messages returns, and its status."""
    call = channel.stream_stream(path)(iter_of(messages), **options)
    received = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        async for message in call:
            received.append(message)
    return received, await call.code(), await call.details()


async def refused(channel, path, message, **options):
    """The status of a call with one message: grpcio raises errors of its own if a stream ends as it sends."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await channel.unary_unary(path)(message, **options)
    return raised.value.code(), raised.value.details()


async def iter_of(messages):
    for message in messages:
        yield message


@pytest.mark.parametrize("sizes", [[0], [1], [5, 0, 7], [16_379], [16_380], [100_000, 3, 1 << 20], [1] * 200])
async def test_messages_come_back_as_they_were_sent(serve, grpcio_channel, sizes):
    """Whatever their sizes, of frames or of none."""
    _, port = await serve()
    channel = await grpcio_channel(port)
    sent = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    received, code, _ = await both_ways(channel, "/test.Test/Echo", sent)
    assert received == sent
    assert code == grpc.StatusCode.OK
    received, code, _ = await both_ways(channel, "/test.Test/Collect", sent)
    assert (received, code) == ([b"%d: %b" % (len(sizes), b"".join(sent))], grpc.StatusCode.OK)


async def test_many_calls_share_a_connection(serve, grpcio_channel):
    """Each gets its own messages."""
    server, port = await serve()
    channel = await grpcio_channel(port)
    calls = [
        both_ways(channel, "/test.Test/Echo", [b"%d" % n, bytes(n * 100), b"%d" % -n]) for n in range(200)
    ]
    for n, (received, code, _) in enumerate(await asyncio.gather(*calls)):
        assert received == [b"%d" % n, bytes(n * 100), b"%d" % -n]
        assert code == grpc.StatusCode.OK
    assert server.statistics()["connections"] == 1


async def test_unknown_methods_are_unimplemented(serve, grpcio_channel):
    """With the method in the message."""
    _, port = await serve()
    channel = await grpcio_channel(port)
    code, details = await refused(channel, "/test.Test/Nothing", b"x")
    assert (code, details) == (grpc.StatusCode.UNIMPLEMENTED, "unknown method /test.Test/Nothing")


async def test_a_status_has_a_message_in_any_language(serve, grpcio_channel):
    """Behind messages, or at once."""

    def refuse(call):
        call.finish(rpc.status.PERMISSION_DENIED, "nicht für dich: 100 %\n\U0001f6ab")
        return Echo(call)

    _, port = await serve({"/test.Test/Refuse": refuse})
    channel = await grpcio_channel(port)
    code, details = await refused(channel, "/test.Test/Refuse", b"x")
    assert code == grpc.StatusCode.PERMISSION_DENIED
    assert details == "nicht für dich: 100 %\n\U0001f6ab"
    assert all_handlers[0].heard == []


async def test_an_expired_call_is_cancelled(serve, grpcio_channel, eventually):
    """When its deadline has passed, even if the client does not tell."""
    _, port = await serve()
    channel = await grpcio_channel(port)
    received, code, _ = await both_ways(channel, "/test.Test/Hold", [b"x"], timeout=0.2)
    assert (received, code) == ([], grpc.StatusCode.DEADLINE_EXCEEDED)
    await eventually(lambda: all_handlers[0].heard[-1] == "cancelled")
    assert all_handlers[0].call.is_finished


async def test_a_cancelled_call_is_told_once(serve, grpcio_channel, eventually):
    """And others of the connection go on."""
    server, port = await serve()
    channel = await grpcio_channel(port)
    call = channel.stream_stream("/test.Test/Hold")(iter_of([b"x"]))
    await eventually(lambda: all_handlers and all_handlers[0].heard)
    call.cancel()
    await eventually(lambda: all_handlers[0].heard[-1] == "cancelled")
    assert all_handlers[0].heard.count("cancelled") == 1
    received, _, _ = await both_ways(channel, "/test.Test/Echo", [b"y"])
    assert received == [b"y"]
    assert server.statistics()["calls_in_progress"] == 0


async def test_calls_end_with_their_connection(serve, grpcio_channel, eventually):
    """Each is told that it is cancelled."""
    _, port = await serve()
    channel = await grpcio_channel(port)
    calls = [channel.stream_stream("/test.Test/Hold")(iter_of([b"x"])) for _ in range(100)]
    await eventually(lambda: len(all_handlers) == 100)
    await channel.close()
    await eventually(lambda: all("cancelled" in each.heard for each in all_handlers))
    assert all(call.done() for call in calls)


async def test_other_compressions_are_unimplemented(serve, grpcio_channel):
    """The client is told which one is spoken."""
    _, port = await serve()
    channel = await grpcio_channel(port)
    code, details = await refused(channel, "/test.Test/Echo", b"x" * 1000, compression=grpc.Compression.Gzip)
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert details == "grpc-encoding 'gzip': use identity"


async def test_messages_that_are_too_long_are_refused(serve, grpcio_channel):
    """With the limit in the message."""
    _, port = await serve(limits=rpc.Limits(max_message_bytes=1000))
    channel = await grpcio_channel(port)
    received, code, _ = await both_ways(channel, "/test.Test/Echo", [b"x" * 1000])
    assert (received, code) == ([b"x" * 1000], grpc.StatusCode.OK)
    code, details = await refused(channel, "/test.Test/Echo", b"y" * 1001)
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details == "a message of 1001 bytes exceeds the limit of 1000"


async def test_a_handler_that_fails_ends_its_own_call(serve, grpcio_channel, caplog):
    """With an error in the log; the client learns nothing of it."""

    class Broken(Echo):
        def message(self, data):
            raise ZeroDivisionError

    _, port = await serve({"/test.Test/Broken": Broken, "/test.Test/Echo": Echo})
    channel = await grpcio_channel(port)
    code, details = await refused(channel, "/test.Test/Broken", b"x")
    assert (code, details) == (grpc.StatusCode.INTERNAL, "the handler of the call failed")
    assert "/test.Test/Broken: message of its handler failed" in caplog.text
    received, _, _ = await both_ways(channel, "/test.Test/Echo", [b"y"])
    assert received == [b"y"]
