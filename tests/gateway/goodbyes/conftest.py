"""A TLS server that never sends a close alert."""

import asyncio
import contextlib
import datetime
import ssl

import pytest

from headgate.apiserver import pki

PATIENCE_S = 20.0
"""Less than the 30 s for which event loops wait for a goodbye."""


class _Connection(asyncio.Protocol):
    def __init__(self, server) -> None:
        self._server = server
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = server.context.wrap_bio(self._received, self._to_send, server_side=True)
        self._is_mute = False

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._server.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_mute:
            return
        self._received.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            if self._tls.read(65536):
                self._tls.write(self._server.answer)
                self._is_mute = True
                self._server.was_asked.set()
        self._transport.write(self._to_send.read())

    def connection_lost(self, error) -> None:
        self._server.lost.put_nowait(error)


class MuteServer:
    """Answers what it gets first with `answer`, and nothing else that comes on that connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.answer = b""
        self.was_asked = asyncio.Event()
        self.transports: list[asyncio.Transport] = []
        self.lost: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def hears_the_end(self) -> None:
        """Waits until a connection ends."""
        async with asyncio.timeout(PATIENCE_S):
            await self.lost.get()


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """For 127.0.0.1."""
    return pki.ensure(tmp_path_factory.mktemp("identity"), "127.0.0.1", datetime.datetime.now(datetime.UTC))


@pytest.fixture
async def mute(identity):
    """One that listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    server = MuteServer(context)
    listening = await asyncio.get_running_loop().create_server(lambda: _Connection(server), "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    for transport in server.transports:
        transport.abort()
    await listening.wait_closed()
