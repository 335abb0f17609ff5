"""Connections with TLS and HTTP/2 leave nothing for the garbage collector, which runs rarely."""

import asyncio
import contextlib
import json

from h2_peer import connect

BODY = json.dumps({"model": "m", "prompt": "hello"}).encode()


async def test_http2_connections(start_gateway, start_endpoint, garbage, eventually):
    """With requests that are served, cancelled, or open at the end."""
    endpoint = await start_endpoint()
    gateway = await start_gateway(endpoint)

    async def talk() -> None:
        peer = await connect(gateway.port)
        served, cancelled, _ = (peer.post() for _ in range(3))
        calls = [await endpoint.call() for _ in range(3)]
        peer.h2.reset_stream(cancelled, 8)
        peer.flush()
        calls[0].answer(b"hello")
        await peer.until(lambda: peer.body(served) or peer.of(served, object))
        await peer.response(peer.get("/healthz"))
        peer.close()
        await asyncio.gather(peer._reading, return_exceptions=True)

    await talk()
    garbage()
    for _ in range(3):
        await talk()
    await eventually(lambda: not len(gateway.shell.clients))
    await gateway.idle()
    assert not {
        name for name in garbage() if not name.startswith("headgate.dataplane.http2")
    }  # the test's own


async def test_secured_connections(start_gateway, start_endpoint, secure, garbage, eventually):
    """By HTTP/1.1 and HTTP/2, and handshakes that fail."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    secured = await secure(gateway)

    async def talk() -> None:
        for protocol in ("http/1.1", "h2"):
            reader, writer = await secured.open(protocol)
            if protocol == "http/1.1":
                head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % len(BODY) + BODY)
                await reader.readuntil(b"hello")
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    await talk()
    garbage()
    for _ in range(3):
        await talk()
    await eventually(lambda: not len(gateway.shell.clients))
    await eventually(lambda: not gateway.shell.clients.handshakes.statistics()["going_on"])
    assert not garbage()
