"""The inference API is served over TLS, to real clients."""

import asyncio
import contextlib
import json
import ssl

import pytest

from headgate.gateway import gauges
from headgate.gateway.tls import handshakes

BODY = json.dumps({"model": "m", "prompt": "hello"})
POST = ("-H", "content-type: application/json", "-d", BODY)


async def test_curl_is_answered_over_tls(start_gateway, start_endpoint, secure):
    """With a certificate that it verifies; the endpoint is told of the scheme."""
    endpoint = await start_endpoint(b"hello")
    secured = await secure(await start_gateway(endpoint))
    code, output = await secured.curl("--http1.1", *POST, path="/v1/completions")
    assert (code, output) == (0, "hello")
    assert endpoint.calls[0].header("x-forwarded-proto") == "https"
    assert endpoint.calls[0].header("host") == f"localhost:{secured.port}"


async def test_connections_are_kept(start_gateway, start_endpoint, secure):
    """Over TLS as without."""
    endpoint = await start_endpoint(b"hello")
    secured = await secure(await start_gateway(endpoint))
    written = "%{num_connects} "
    again = ("--next", "-sS", "--cacert", str(secured.files.ca), *POST, "-w", written)
    code, output = await secured.curl(
        "--http1.1", *POST, "-w", written, f"{secured.url}/v1/completions", *again, path="/v1/completions"
    )
    assert code == 0
    assert output.split() == ["hello1", "hello0"]


async def test_plain_http_is_told_that_tls_is_needed(
    start_gateway, start_endpoint, secure, eventually, run_program
):
    """And counted."""
    endpoint = await start_endpoint(b"hello")
    gateway = await start_gateway(endpoint)
    gauges.add_gauges(gateway.registry, gateway.shell)
    secured = await secure(gateway)
    url = f"http://localhost:{secured.port}/v1/completions"
    code, output = await run_program("curl", "-sS", "-w", " %{http_code}", *POST, url)
    assert code == 0
    assert "this port speaks TLS only: use https://" in output
    assert output.endswith(" 400")
    assert gateway.metric("headgate_gateway_tls_handshakes_total", result="plain_http") == 1
    assert not endpoint.calls
    await eventually(lambda: not gateway.shell.clients.handshakes.statistics()["going_on"])


async def test_plain_http_is_redirected_if_the_operator_wants_it(
    start_gateway, start_endpoint, secure, run_program
):
    """To the same port, with TLS."""
    secured = await secure(await start_gateway(await start_endpoint(b"hello")), redirects=True)
    written = ("-w", "%{http_code} %{redirect_url}")
    url = f"http://localhost:{secured.port}/v1/models"
    assert await run_program("curl", "-sS", *written, url) == (
        0,
        f"308 https://localhost:{secured.port}/v1/models",
    )


@pytest.mark.parametrize("sent", [b"\x00\x01\x02", b"ssh-2.0\r\n", b""])
async def test_anything_else_is_disconnected(start_gateway, start_endpoint, secure, eventually, sent):
    """And counted, with other handshakes that fail."""
    gateway = await start_gateway(await start_endpoint(b"hello"))
    gauges.add_gauges(gateway.registry, gateway.shell)
    secured = await secure(gateway)
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    writer.write(sent)
    if not sent:
        writer.close()
    with contextlib.suppress(ConnectionError):
        assert not (await reader.read()).startswith(b"HTTP")
    writer.close()
    await eventually(lambda: gateway.metric("headgate_gateway_tls_handshakes_total", result="failed") == 1)


async def test_clients_that_begin_nothing_have_ten_seconds(
    start_gateway, start_endpoint, secure, monkeypatch, eventually
):
    """From their connection on."""
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.1)
    gateway = await start_gateway(await start_endpoint(b"hello"))
    gauges.add_gauges(gateway.registry, gateway.shell)
    secured = await secure(gateway)
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.port)
    with contextlib.suppress(ConnectionError):
        assert not await reader.read()
    writer.close()
    await eventually(lambda: gateway.metric("headgate_gateway_tls_handshakes_total", result="timeout") == 1)


async def test_clients_that_leave_stop_their_endpoint(start_gateway, endpoint, secure, eventually):
    """Over TLS too."""
    secured = await secure(await start_gateway(endpoint))
    _, writer = await secured.open()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n")
    writer.write(b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY.encode()))
    await endpoint.call()
    writer.close()
    await eventually(lambda: endpoint.connections[0].lost.done())
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_broken_response_does_not_look_complete(start_gateway, endpoint, secure):
    """The client sees no end of the TLS connection that the gateway confirms."""
    secured = await secure(await start_gateway(endpoint))
    reader, writer = await secured.open()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n")
    writer.write(b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY.encode()))
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    assert b"half" in await reader.readuntil(b"half")
    call.reset()
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await reader.readexactly(1)
    writer.transport.abort()


async def test_rejections_are_told_over_tls(start_gateway, start_endpoint, secure):
    """The reason arrives, and the connection ends."""
    secured = await secure(await start_gateway(await start_endpoint(b"hello")))
    reader, writer = await secured.open()
    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n")
    assert b"names 2 hosts" in await reader.readuntil(b"}}")
    writer.close()


async def test_handshakes_are_bounded(start_gateway, start_endpoint, secure, monkeypatch, eventually):
    """The oldest gives way, and clients in earnest are served."""
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES", 4)
    gateway = await start_gateway(await start_endpoint(b"hello"))
    gauges.add_gauges(gateway.registry, gateway.shell)
    secured = await secure(gateway)
    silent = [await asyncio.open_connection("127.0.0.1", secured.port) for _ in range(6)]
    code, output = await secured.curl("--http1.1", *POST, path="/v1/completions")
    assert (code, output) == (0, "hello")
    displaced = gateway.metric("headgate_gateway_tls_handshakes_total", result="displaced")
    assert displaced == 3
    assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()
