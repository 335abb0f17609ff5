"""HTTP/2 inside TLS, with ALPN: our server for grpcio, our client for our server."""

import asyncio
import datetime
import ssl

import grpc
import pytest
from rpc_calls import Received

from headgate import rpc
from headgate.serving import certificates

pytestmark = pytest.mark.every_loop

ISSUED = certificates.issue("picker", ["localhost", "127.0.0.1"], datetime.datetime.now(datetime.UTC))


def serving(*, offers_h2: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.load(context, ISSUED)
    return rpc.tls.for_server(context) if offers_h2 else context


async def echoed(client: rpc.Client, message: bytes) -> list[bytes]:
    received = Received()
    call = client.call("/test.Test/Echo", received)
    call.send(message)
    call.half_close()
    assert (await received.ended).code == 0
    return received.messages


async def test_grpcio_trusts_the_authority(serve, grpcio_channel):
    """And messages of any size pass."""
    _, port = await serve(tls=serving())
    channel = await grpcio_channel(port, credentials=grpc.ssl_channel_credentials(ISSUED.ca))
    call = channel.unary_unary("/test.Test/Echo")
    assert await call(b"x" * 1_000_000) == b"x" * 1_000_000


async def test_our_client_trusts_the_authority(serve, connect):
    """Named, or anybody."""
    _, port = await serve(tls=serving())
    for ca in (ISSUED.ca.decode(), None):
        client = await connect(port, tls=rpc.tls.for_client(ca), server_name="localhost")
        assert await echoed(client, b"x" * 1_000_000) == [b"x" * 1_000_000]


async def test_a_strange_certificate_is_not_trusted(serve, connect):
    """If an authority is named."""
    _, port = await serve(tls=serving())
    other = certificates.issue("other", ["localhost"], datetime.datetime.now(datetime.UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(port, tls=rpc.tls.for_client(other.ca.decode()), server_name="localhost")


async def test_peers_that_do_not_offer_http2_get_nothing(serve, connect):
    """Neither a server nor a client."""
    _, port = await serve(tls=serving(offers_h2=False))
    with pytest.raises(ConnectionError, match="does not offer HTTP/2"):
        await connect(port, tls=rpc.tls.for_client(None))
    server, port = await serve(tls=serving())
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert await asyncio.wait_for(reader.read(), 20.0) == b""
    writer.close()
    assert server.statistics()["connections"] == 0
