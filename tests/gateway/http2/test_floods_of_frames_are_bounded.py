"""Frames besides responses are bounded per connection, and per turn of the event loop."""

import asyncio
import itertools
import struct
import time

import pytest
from h2.settings import SettingCodes

from headgate.dataplane.http2.frames import BURST_FRAMES, FRAMES_PER_S, TURN_FRAMES, FrameFilter
from headgate.dataplane.http2.translator import MAX_TABLE_BYTES

pytestmark = pytest.mark.every_loop

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_HEADERS, PADDED = 4, 8
UNKNOWN = 77
INDEXED_103 = b"\x08\x03103"


def frame(kind, payload=b"", *, flags=0, stream=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


FLOODS = {
    "ping": frame(PING, b"12345678"),
    "acknowledged ping": frame(PING, b"12345678", flags=1),
    "settings": frame(SETTINGS),
    "many settings": frame(SETTINGS, struct.pack(">HI", SettingCodes.HEADER_TABLE_SIZE, 1 << 30) * 2700),
    "acknowledged settings": frame(SETTINGS, flags=1),
    "window": frame(WINDOW, b"\0\0\0\1"),
    "window of the stream": frame(WINDOW, b"\0\0\0\1", stream=1),
    "priority": frame(PRIORITY, b"\0\0\0\0\1", stream=3),
    "reset of another stream": frame(RESET, b"\0\0\0\0", stream=3),
    "empty data": frame(DATA, stream=1),
    "padding alone": frame(DATA, b"\xff" + b"\0" * 255, flags=PADDED, stream=1),
    "goaway": frame(GOAWAY, b"\x7f\xff\xff\xff\0\0\0\0"),
    "unknown": frame(UNKNOWN),
    "continuation": frame(HEADERS, b"\x88", stream=1) + frame(CONTINUATION, b"", stream=1) * 100_000,
}


@pytest.fixture
async def asked(start_gateway, start_http2_endpoint):
    """A gateway, its client that has asked, and the call at the endpoint."""
    endpoint = await start_http2_endpoint()
    gateway = await start_gateway(settings={"endpoints_retries": 0})
    gateway.serve([endpoint], http2=True)
    client = await gateway.connect()
    client.post()
    return gateway, client, await endpoint.call()


async def flood(transport, frames, most):
    """Sends frames again and again until the gateway disconnects; returns how many bytes, at most `most`."""
    sent = 0
    while sent < most and not transport.is_closing():
        transport.write(frames)
        sent += len(frames)
        while transport.get_write_buffer_size() and not transport.is_closing():
            await asyncio.sleep(0.001)
    return sent


@pytest.mark.parametrize("frames", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_its_own_request(asked, frames):
    """After little work; another request is served."""
    gateway, client, call = asked
    is_answered = frames[3] == DATA
    if is_answered:
        call.head()
        await client.head()
    if len(frames) < 100_000:
        frames *= 100_000 // len(frames) + 1
    began = time.process_time()
    sent = await flood(call.connection.transport, frames, 64 << 20)
    assert sent < 32 << 20, "of which most waits in the buffers of the kernel"
    await call.connection.lost
    if is_answered:
        await client.rest()
    else:
        assert (await client.response()).status == 502
    assert time.process_time() - began < 5.0
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 1
    await gateway.idle()


async def test_a_turn_of_the_loop_reads_few_frames(asked):
    """Others have their turns while an endpoint sends its answer in frames of one byte."""
    _, client, call = asked
    call.head()
    head = await client.head()
    turns = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    watching = asyncio.create_task(watch())
    count = 30_000
    call.connection.transport.write(frame(DATA, b"x", stream=1) * count + frame(DATA, flags=1, stream=1))
    response = await client.read_body(head)
    watching.cancel()
    assert response.body == b"x" * count
    assert max(turns) < 0.2, "one read has 26,000 frames, which take 0.5 s"


async def test_bytes_that_wait_for_their_turn_count_although_the_endpoint_closes(asked):
    """An answer of many frames is whole where the connection ends right behind it."""
    _, client, call = asked
    call.head(content_length="5000")
    call.connection.transport.write(frame(DATA, b"x", stream=1) * 5000)
    call.connection.transport.close()
    assert (await client.response()).body == b"x" * 5000


async def test_an_endpoint_cannot_make_the_gateway_remember_headers(asked):
    """It offers to remember gigabytes of headers; the gateway remembers 4 KB, as it would for any other."""
    _, client, call = asked
    call.connection.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 1 << 31})
    call.connection.flush()
    call.answer()
    assert (await client.response()).status == 200
    call.connection.h2.decoder.max_allowed_table_size = 1 << 31
    for number in range(50):
        client.post(**{f"x_{number}": "y" * 1000})
        (await call.connection._endpoint.call()).answer()
        assert (await client.response()).status == 200
    assert call.connection.h2.decoder.header_table_size <= MAX_TABLE_BYTES
    assert len(call.connection._endpoint.connections) == 1


async def test_a_header_that_stands_for_megabytes_ends_its_own_request(asked):
    """A frame of 16 KB that refers to one long header 12,000 times is not written out."""
    gateway, client, call = asked
    name, value = b"x" * 10, b"y" * 3000
    literal = b"\x40" + bytes([len(name)]) + name + b"\x7f" + _integer(len(value) - 127) + value
    block = b"\x88" + literal + b"\xbe" * 12_000
    call.connection.transport.write(frame(HEADERS, block, flags=END_HEADERS, stream=1))
    response = await client.response()
    assert response.status == 502
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 1


def _integer(value):
    """The rest of one that does not fit its prefix (RFC 7541, 5.1)."""
    made = b""
    while value >= 128:
        made += bytes([value % 128 + 128])
        value //= 128
    return made + bytes([value])


def test_frames_are_allowed_again_with_time():
    """A connection that is kept for days may have its pings."""
    filter_ = FrameFilter(0.0)
    for second in range(0, 10_000, 60):
        filter_.feed(FLOODS["ping"] * 100, float(second))
    assert BURST_FRAMES > 100
    assert FRAMES_PER_S * 60 > 100


def test_requests_and_their_bodies_allow_frames():
    """An endpoint answers hundreds of requests a second on one connection, and opens its window for each."""
    filter_ = FrameFilter(0.0)
    for _ in range(1000):
        filter_.request_sent()
        filter_.body_sent(16_384)
        filter_.feed(FLOODS["window"] * 20 + frame(HEADERS, b"\x88", stream=1), 0.0)


def test_what_is_beyond_a_turn_is_left_for_the_next():
    """In order, and nothing is lost wherever the bytes are cut."""
    frames = b"".join(frame(DATA, bytes([n % 256]), stream=1) for n in range(1000))
    for size in (1, 7, 100, 5000, len(frames)):
        filter_, passed, most = FrameFilter(0.0), b"", 0
        for at in range(0, len(frames), size):
            rest = frames[at : at + size]
            for turn in itertools.count():
                passed += filter_.feed(rest, 0.0)
                rest = filter_.rest
                most = max(most, turn)
                if not rest:
                    break
        assert passed == frames
        assert most <= 1000 // TURN_FRAMES
