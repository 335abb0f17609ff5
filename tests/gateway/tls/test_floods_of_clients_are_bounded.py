"""What is cheap for a client and costly for the gateway ends its connection, and nobody else's."""

import pytest
from http2_in_memory import GREETING, SETTINGS, frames_in, send

from headgate.http2 import errors, frames, hpack

pytestmark = pytest.mark.usefixtures("endless_turns")

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/healthz"), (b":authority", b"gateway")]
POST = [(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/v1/completions"), (b":authority", b"g")]


def begin(number: int, headers=GET, *, ends: bool = True) -> bytes:
    return frames.header_frames(number, hpack.encode(headers), frames.END_STREAM if ends else 0)


async def ended_with(*sent: bytes) -> int | None:
    """The code with which the gateway ends the connection; None if it stays."""
    for kind, _, _, payload in frames_in(await send([GREETING, *sent])):
        if kind == frames.GOAWAY and int.from_bytes(payload[4:8], "big"):
            return int.from_bytes(payload[4:8], "big")
    return None


async def test_rapid_resets():
    """Requests that are cancelled at once (CVE-2023-44487)."""
    attack = [
        b"".join(
            begin(number, POST, ends=False) + frames.reset(number, 8) for number in range(at, at + 200, 2)
        )
        for at in range(1, 4001, 200)
    ]
    assert await ended_with(*attack) == errors.ENHANCE_YOUR_CALM
    assert await ended_with(*attack[:2]) is None


async def test_continuations_without_end():
    """A head that never ends (CVE-2024-27316)."""
    attack = (
        frames.frame(frames.HEADERS, 1, hpack.encode(GET))
        + frames.frame(frames.CONTINUATION, 1, b"\0\1a\1b" * 100) * 200
    )
    assert await ended_with(attack) == errors.ENHANCE_YOUR_CALM
    empty = frames.frame(frames.HEADERS, 1, hpack.encode(GET)) + frames.frame(frames.CONTINUATION, 1) * 5000
    assert await ended_with(empty) == errors.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "flood",
    [
        frames.settings([(4, 65_535)]),
        frames.settings([]),
        frames.ping(b"12345678"),
        frames.window_update(0, 1),
        frames.frame(frames.PRIORITY, 1, b"\0\0\0\3\0"),
        frames.frame(99, 0, b"unknown"),
    ],
    ids=["settings", "empty settings", "pings", "windows", "priorities", "unknown"],
)
async def test_frames_without_content(flood):
    """Some are normal."""
    assert await ended_with(flood * 5000) == errors.ENHANCE_YOUR_CALM
    assert await ended_with(flood * 50) is None


async def test_empty_data():
    """DATA frames without bytes, and with nothing but padding."""
    for empty in (frames.frame(frames.DATA, 1), frames.frame(frames.DATA, 1, b"\5\0\0\0\0\0", frames.PADDED)):
        assert await ended_with(begin(1, POST, ends=False) + empty * 5000) == errors.ENHANCE_YOUR_CALM


async def test_a_small_block_with_much_in_it():
    """A header of the table, referred to over and over (HPACK bomb)."""
    kept = b"\x40\x01x" + b"\x7f" + bytes([0xF8 - 0x80 + 0x80, 0x16]) + b"y" * 3063
    bomb = hpack.encode(GET) + kept + b"\xbe" * 3000
    assert await ended_with(frames.header_frames(1, bomb, frames.END_STREAM)) == errors.ENHANCE_YOUR_CALM


async def test_windows_must_be_kept():
    """More data than was allowed is an error of the connection."""
    data = b"".join(frames.frame(frames.DATA, 1, b"x" * 16_384) for _ in range(70))
    settings = SETTINGS.replace(clients_max_body_bytes=1 << 20)
    written = await send([GREETING + begin(1, POST, ends=False), data], settings)
    assert any(kind in (frames.GOAWAY, frames.RST_STREAM) for kind, *_ in frames_in(written))


async def test_windows_that_overflow():
    """RFC 9113, 6.9.1."""
    assert await ended_with(frames.window_update(0, 2**31 - 1)) == errors.FLOW_CONTROL_ERROR
    over = begin(1, POST, ends=False) + frames.window_update(1, 2**31 - 1)
    assert await ended_with(over) == errors.FLOW_CONTROL_ERROR


async def test_more_requests_than_are_allowed():
    """The further ones are refused, and may be sent again."""
    written = await send([GREETING + b"".join(begin(number, POST, ends=False) for number in range(1, 15, 2))])
    refused = [
        number
        for kind, _, number, payload in frames_in(written)
        if kind == frames.RST_STREAM and payload == errors.REFUSED_STREAM.to_bytes(4, "big")
    ]
    assert refused == [9, 11, 13]


async def test_heads_that_are_too_long_are_told():
    """As by HTTP/1.1, unless they are far too long."""
    headers = [*GET, *((b"x-%d" % place, b"y" * 300) for place in range(4))]
    written = await send([GREETING, begin(1, headers)])
    assert (frames.HEADERS, 1) in [(kind, number) for kind, _, number, _ in frames_in(written)]
    assert b"head_too_large" in written


async def test_bodies_that_are_too_long_are_told():
    """And the rest of them is not wanted."""
    settings = SETTINGS.replace(clients_max_body_bytes=1024)
    body = frames.frame(frames.DATA, 1, b"x" * 2000)
    written = await send([GREETING + begin(1, POST, ends=False) + body], settings)
    assert b"body_too_large" in written
    assert frames.reset(1, errors.NO_ERROR) in written


async def test_a_body_must_have_its_length():
    """Neither more nor less than was said: the rest would be read as another request."""
    for said, sent in ((3, b"four"), (5, b"four")):
        head = begin(1, [*POST, (b"content-length", b"%d" % said)], ends=False)
        written = await send([GREETING, head + frames.frame(frames.DATA, 1, sent, frames.END_STREAM)])
        assert frames.reset(1, errors.PROTOCOL_ERROR) in written
