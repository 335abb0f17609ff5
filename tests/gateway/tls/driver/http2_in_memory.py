"""A gateway without routes, and a client of HTTP/2 that writes frames by hand, without sockets."""

import asyncio
import random

from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.http2 import frames
from headgate.telemetry import Registry

SETTINGS = GatewaySettings().replace(clients_max_streams=4, clients_max_head_bytes=1024)
GREETING = frames.PREFACE + frames.settings([])


class Socket(asyncio.Transport):
    """Keeps what is written; its user decides when it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def get_extra_info(self, name, default=None):
        return {"peername": ("127.0.0.1", 1), "socket": self}.get(name, default)

    def setsockopt(self, *_): ...
    def set_protocol(self, protocol):
        self.protocol = protocol

    def write(self, data):
        assert not self.closing
        self.written += data

    def set_write_buffer_limits(self, high=None, low=None): ...
    def get_write_buffer_size(self):
        return 0

    def pause_reading(self): ...
    def resume_reading(self): ...
    def can_write_eof(self):
        return True

    def write_eof(self):
        self.closing = True

    close = abort = write_eof

    def is_closing(self):
        return self.closing


async def send(pieces: list[bytes], settings: GatewaySettings = SETTINGS) -> bytes:
    """What a gateway without routes writes for these bytes; nothing of them may be left over."""
    loop = asyncio.get_running_loop()
    shell = Shell(settings, Recorder(Registry(), None), loop, random.Random(1))
    shell.plane.is_ready = True
    socket = Socket()
    socket.protocol = ClientConnection(shell.services, shell.clients)
    socket.protocol.connection_made(socket)
    for piece in pieces:
        if not socket.closing:
            socket.protocol.data_received(piece)
        for _ in range(3):
            await asyncio.sleep(0)
        shell.clients.sweep(shell.now())
    socket.protocol.connection_lost(None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert shell.plane.ledger.statistics()["requests"] == 0
    assert shell.services.bodies.held == 0
    assert shell.clients.http2.statistics() == {"connections": 0, "streams": 0, "held_bytes": 0}
    assert len(shell.clients) == 0
    await shell.close()
    return socket.written


def frames_in(written: bytes) -> list[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame; there is nothing but whole frames."""
    found, at = [], 0
    while at < len(written):
        high, low, kind, flags, number = frames.HEAD.unpack_from(written, at)
        begin = at + frames.HEADER_BYTES
        at = begin + (high << 8 | low)
        assert at <= len(written)
        found.append((kind, flags, number, written[begin:at]))
    return found
