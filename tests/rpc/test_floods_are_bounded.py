"""A hostile client costs its own connection, after little work; others are served meanwhile."""

import asyncio
import struct
import time

import pytest
from h2_sides import HEADERS, frame, framed, greeted, h2_client
from rpc_calls import Received, all_handlers

from headgate import rpc
from headgate.http2 import hpack
from headgate.http2.errors import Http2Error

DATA, HEADERS_, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
BLOCK = hpack.encode([(name.encode(), value.encode()) for name, value in HEADERS])


def opening(number: int, *, flags: int = 4) -> bytes:
    return frame(HEADERS_, BLOCK, flags=flags, stream=number)


def each(count: int, make) -> bytes:
    return b"".join(make(2 * n + 3) for n in range(count))


OPEN = opening(1)
STUBBORN = frame(HEADERS_, BLOCK.replace(b"/test.Test/Echo", b"/test.Test/Hold"), flags=4, stream=1)
"""A call that is never finished."""
FLOODS = {
    "ping": OPEN + frame(PING, b"12345678") * 100_000,
    "acknowledged ping": OPEN + frame(PING, b"12345678", flags=1) * 100_000,
    "settings": OPEN + frame(SETTINGS) * 100_000,
    "long settings": OPEN + frame(SETTINGS, struct.pack(">HI", 4, 70_000) * 2700) * 200,
    "windows of many streams": each(900, opening) + frame(SETTINGS, struct.pack(">HI", 4, 1) * 2000) * 200,
    "acknowledged settings": OPEN + frame(SETTINGS, flags=1) * 100_000,
    "window": OPEN + frame(WINDOW, b"\0\0\0\1") * 100_000,
    "window of the stream": OPEN + frame(WINDOW, b"\0\0\0\1", stream=1) * 100_000,
    "priority": OPEN + frame(PRIORITY, b"\0\0\0\0\1", stream=1) * 100_000,
    "resets of a closed stream": OPEN + frame(RESET, b"\0\0\0\0", stream=1) * 100_000,
    "empty data": OPEN + frame(DATA, stream=1) * 100_000,
    "padding alone": OPEN + frame(DATA, b"\xff" + b"\0" * 255, flags=8, stream=1) * 10_000,
    "data for a closed stream": OPEN
    + frame(RESET, b"\0\0\0\0", stream=1)
    + frame(DATA, b"x", stream=1) * 50_000,
    "goaway": OPEN + frame(GOAWAY, b"\x7f\xff\xff\xff\0\0\0\0") * 100_000,
    "unknown": OPEN + frame(77) * 100_000,
    "long unknown": OPEN + frame(77, b"x" * 16_384) * 1000,
    "continuation": frame(HEADERS_, BLOCK, stream=1) + frame(CONTINUATION, b"", stream=1) * 100_000,
    "long continuation": frame(HEADERS_, BLOCK, stream=1)
    + frame(CONTINUATION, b"\0" * 16_000, stream=1) * 100,
    "calls beyond their number": each(100_000, opening),
    "calls that are reset": each(40_000, lambda n: opening(n) + frame(RESET, b"\0\0\0\x08", stream=n)),
    "trailers again and again": OPEN + opening(1, flags=4) * 50_000,
    "a header that stands for megabytes": frame(
        HEADERS_, b"\x40\x03abc\x7f\xb9\x16" + b"y" * 3000 + b"\xbe" * 12_000, flags=4, stream=1
    ),
    "a frame that is too long": OPEN + b"\xff" * 30,
    "zero windows": OPEN + frame(WINDOW, b"\0\0\0\0"),
    "a window that is too large": OPEN + frame(WINDOW, b"\x7f\xff\xff\xff") * 2,
    "a push": OPEN + frame(PUSH, b"\0\0\0\2\x82", flags=4, stream=1),
    "a stream of a server": opening(2),
    "data of a stream that nobody began": frame(DATA, b"xxxxx", stream=7),
    "data behind the end": STUBBORN + frame(DATA, flags=1, stream=1) + frame(DATA, b"x", stream=1),
    "frames within a header block": frame(HEADERS_, BLOCK, stream=1) + frame(PING, b"12345678"),
}


@pytest.fixture(autouse=True)
def _forget():
    all_handlers.clear()


async def flood(port: int, data: bytes) -> tuple[int, bytes]:
    """Send these bytes until the server disconnects: how many it took, and what it sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = h2_client()
    received = bytearray()

    async def read() -> None:
        while piece := await reader.read(1 << 16):
            received.extend(piece)

    reading = asyncio.create_task(read())
    sent = 0
    whole = client.data_to_send() + data
    try:
        while sent < len(whole) and not reading.done():
            writer.write(whole[sent : sent + 65_536])
            sent += 65_536
            await writer.drain()
        await asyncio.wait_for(reading, 20.0)
    except ConnectionError:
        pass
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        writer.close()
    return sent, bytes(received)


async def echoed(client: rpc.Client) -> list[bytes]:
    received = Received()
    call = client.call("/test.Test/Echo", received)
    call.send(b"hello")
    call.half_close()
    await asyncio.wait_for(received.ended, 20.0)
    return received.messages


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_ends_its_own_connection(serve, connect, eventually, name):
    """Its calls are cancelled; another connection's are not."""
    server, port = await serve()
    client = await connect(port)
    began = time.process_time()
    flooding = asyncio.create_task(flood(port, FLOODS[name]))
    while not flooding.done():
        assert await echoed(client) == [b"hello"]
        await asyncio.sleep(0.01)
    sent, received = await flooding
    assert time.process_time() - began < 8.0
    assert sent < 8 << 20
    assert bytes([GOAWAY]) in received or not received or sent > 1 << 20
    await eventually(lambda: server.statistics()["connections"] == 1)
    await eventually(lambda: server.statistics()["calls_in_progress"] == 0)
    assert server.statistics()["held_bytes"] == 0
    hostile = [each for each in all_handlers if b"hello" not in each.heard]
    await eventually(lambda: all("cancelled" in each.heard for each in hostile))


async def test_a_turn_of_the_loop_is_short(serve):
    """Others have their turns while a client sends its message in frames of one byte."""
    _, port = await serve()
    turns = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    watching = asyncio.create_task(watch())
    message = framed(b"x" * 30_000)
    frames = b"".join(frame(DATA, message[n : n + 1], stream=1) for n in range(len(message)))
    writer.write(h2_client().data_to_send() + OPEN + frames + frame(DATA, flags=1, stream=1))
    received = b""
    while b"grpc-status" not in received:
        received += await asyncio.wait_for(reader.read(1 << 16), 20.0)
    watching.cancel()
    writer.close()
    assert b"x" * 10_000 in received
    assert max(turns) < 0.2, "all frames together take half a second"


async def test_incomplete_messages_are_bounded_together(serve, eventually):
    """However many calls and connections they are of; the call that exceeds the limit ends."""
    server, port = await serve(limits=rpc.Limits(max_held_bytes=1 << 20, max_message_bytes=1 << 20))
    half = b"\0" + (1 << 20).to_bytes(4, "big") + b"x" * 16_000
    writers = []
    for _ in range(4):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        calls = each(40, lambda n: opening(n) + frame(DATA, half, stream=n))
        writer.write(h2_client().data_to_send() + calls)
    await eventually(lambda: server.statistics()["calls"] == 160)
    assert server.statistics()["held_bytes"] <= 1 << 20
    assert server.statistics()["calls_in_progress"] == (1 << 20) // 16_000
    assert sum("cancelled" in each.heard for each in all_handlers) == 160 - (1 << 20) // 16_000
    for writer in writers:
        writer.close()
    await eventually(lambda: server.statistics()["held_bytes"] == 0)


def test_more_than_the_window_of_a_paused_call_ends_the_connection():
    """Calls that are not paused get their window back at once."""
    server, client = greeted(rpc.Limits(call_window_bytes=65_535, connection_window_bytes=65_535))
    client.send_headers(1, HEADERS)
    client.send_headers(3, HEADERS)
    server.feed(client.data_to_send())
    data = frame(DATA, framed(b"x" * 16_000), stream=1)
    for _ in range(50):
        server.feed(data)
    server.http2.pause(server.http2.streams[1])
    with pytest.raises(Http2Error, match="the peer exceeds the window of stream 1"):
        server.feed(data * 5)


async def test_calls_of_all_connections_are_bounded(serve, eventually):
    """Those beyond are refused, and may be sent again."""
    server, port = await serve(limits=rpc.Limits(max_calls=30, max_all_calls=50))
    opened = h2_client().data_to_send() + each(
        40, lambda n: STUBBORN[:5] + n.to_bytes(4, "big") + STUBBORN[9:]
    )
    peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    for (reader, writer), refused in zip(peers, (10, 20), strict=True):
        writer.write(opened)
        received = b""
        while received.count(b"\0\0\4\3\0\0\0\0") < refused:
            received += await asyncio.wait_for(reader.read(1 << 16), 20.0)
    assert server.statistics()["calls_in_progress"] == 50
    for _, writer in peers:
        writer.close()
    await eventually(lambda: server.statistics()["calls_in_progress"] == 0)
    await eventually(lambda: len([each for each in all_handlers if "cancelled" in each.heard]) == 50)


async def test_http1_is_told_that_it_is_wrong_here(serve):
    """By the end of the connection, with the reason for HTTP/2 clients."""
    _, port = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    received = await asyncio.wait_for(reader.read(), 20.0)
    assert b"the client speaks no HTTP/2" in received
    writer.close()


async def test_connections_are_bounded(serve, connect):
    """One more is told so at once."""
    server, port = await serve(limits=rpc.Limits(max_connections=2))
    clients = [await connect(port) for _ in range(2)]
    assert await echoed(clients[0]) == await echoed(clients[1]) == [b"hello"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert b"too many connections" in await asyncio.wait_for(reader.read(), 20.0)
    writer.close()
    assert server.statistics()["connections_rejected"] == 1


MALFORMED = {
    "no path": [HEADERS[0], HEADERS[1], *HEADERS[3:]],
    "a pseudo-header behind others": [*HEADERS, (":scheme", "http")],
    "an unknown pseudo-header": [(":status", "200"), *HEADERS],
    "upper case": [*HEADERS, ("X-Upper", "1")],
    "a header of connections": [*HEADERS, ("connection", "close")],
}


@pytest.mark.parametrize("listed", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_headers_end_their_call(serve, listed):
    """With RST_STREAM; the connection goes on."""
    _, port = await serve()
    block = hpack.encode([(name.encode(), value.encode()) for name, value in listed])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(h2_client().data_to_send() + frame(HEADERS_, block, flags=5, stream=1) + opening(3, flags=5))
    received = b""
    while b"grpc-status" not in received:
        received += await asyncio.wait_for(reader.read(1 << 16), 20.0)
    assert frame(RESET, b"\0\0\0\1", stream=1) in received
    writer.close()
    assert [each.heard for each in all_handlers] == [["half closed"]]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ((":method", "GET"), b"405"),
        (("content-type", "text/plain"), b"415"),
        (("content-type", "application/grpcx"), b"415"),
    ],
)
async def test_requests_that_are_no_grpc_get_an_http_status(serve, changed, status):
    """As of any server of HTTP."""
    _, port = await serve()
    listed = [changed if name == changed[0] else (name, value) for name, value in HEADERS]
    block = hpack.encode([(name.encode(), value.encode()) for name, value in listed])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(h2_client().data_to_send() + frame(HEADERS_, block, flags=5, stream=1))
    received = b""
    while status not in received:
        received += await asyncio.wait_for(reader.read(1 << 16), 20.0)
    writer.close()
    assert not all_handlers
