"""The framing of a response is bounded: an excess ends its own request and no other."""

import asyncio
import resource

import pytest

pytestmark = pytest.mark.every_loop

MB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: %b\r\n\r\n"
EVENT = b'data: {"id":"1","choices":[]}\n\n'
BODIES = {
    "events": (b"text/event-stream", {"model": "m", "stream": True}, EVENT),
    "document": (b"application/json", {"model": "m"}, b'{"id":"1"}'),
    "sound": (b"audio/mpeg", {"model": "m"}, b"\0" * 100),
}
ENDLESS = {
    "trailer": (b"0\r\nx: ", b"v" * 65536),
    "name of a trailer": (b"0\r\n", b"n" * 65536),
    "many trailers": (b"0\r\n", b"x: y\r\n" * 10_000),
    "chunk extension": (b"5;", b"e" * 65536),
    "chunk size": (b"", b"0" * 65536),
}
"""How it begins behind the first chunk of a body, and how it goes on and on."""


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


async def answer_endlessly(call, kind: bytes, first: bytes, begin: bytes, more: bytes) -> int:
    """Returns how much was written until the gateway disconnected, 64 MB at most."""
    call.write(HEAD % kind + chunk(first))
    await asyncio.sleep(0.05)
    call.write(begin)
    written = 0
    while written < 64 * MB and not call.transport.is_closing():
        call.write(more)
        written += len(more)
        while call.transport.get_write_buffer_size() and not call.transport.is_closing():
            await asyncio.sleep(0.001)
    return written


@pytest.mark.parametrize("http", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("endless", ENDLESS.values(), ids=ENDLESS)
async def test_framing_without_end_ends_the_answer(gateway, endpoint, request_bytes, endless, body, http):
    """The gateway disconnects from the endpoint after a few kilobytes, and goes on with others."""
    kind, asked, first = body
    client = await gateway.connect()
    client.send(request_bytes(asked).replace(b"HTTP/1.1", http.encode(), 1))
    call = await endpoint.call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    written, received = await asyncio.gather(answer_endlessly(call, kind, first, *endless), client.rest())
    assert written < 16 * MB, "of which most waits in the buffers of the kernel"
    assert len(received) < 64 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    assert gateway.metric("headgate_gateway_requests_total", outcome="upstream_invalid") == 1
    again = asyncio.create_task(gateway.ask())
    (await endpoint.call()).answer(b"next")
    assert (await again).body == b"next"


@pytest.mark.parametrize(("count", "status"), [(250, 200), (300, 502)])
async def test_headers_of_an_answer_are_bounded(gateway, endpoint, count, status):
    """Many short headers fit into the bytes of a head; each of them costs time."""
    endpoint.behave = lambda call: call.answer(**{f"x-{place}": "" for place in range(count)})
    response = await gateway.ask()
    assert response.status == status
    failed = gateway.metric("headgate_gateway_attempts_failed_total", reason="upstream_invalid")
    assert failed == (status == 502)
    if failed:
        assert response.json["error"]["code"] == "upstream_invalid"
    endpoint.behave = lambda call: call.answer(b"next")
    assert (await gateway.ask()).body == b"next"
