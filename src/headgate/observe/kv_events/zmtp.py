"""A ZMTP 3 (rfc.zeromq.org/spec/23) client, limited to subscribing to one publisher.

libzmq buffers a message until its last part has arrived, however many there are: an endless message fills the
process's memory, and no option of libzmq limits that. Here whole messages are bounded, and unread data stays
with the sender.
"""

from __future__ import annotations

import asyncio

from headgate.lookup import Lookup

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""All parts together: ten times what an engine reports for a step with 64,000 tokens."""
MAX_PARTS = 8
MAX_COMMAND_BYTES = 4096
CONNECT_S = 10.0
"""Timeout of the connection and its handshake."""
MESSAGE_S = 30.0
"""Timeout of a message, once it has begun."""
HEARTBEAT_S = 5.0
"""After so long without a message, a peer is pinged, and has as long to respond."""
COMMAND_PAUSE_S = 0.01
"""Pause between two commands: they need no immediate response, and a flood of them must be cheap."""

_MORE, _LONG, _COMMAND = 1, 2, 4
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
_MECHANISM = slice(12, 32)
_PING, _PONG = b"\4PING", b"\4PONG"
_TTL_BYTES = 2


class ZmtpError(ConnectionError):
    """Why the connection to a peer was ended."""


class Peer:
    """One connection. Any problem raises OSError, after which it must be closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answers_pings = False

    async def send(self, *parts: bytes) -> None:
        """Send a message."""
        last = len(parts) - 1
        self._writer.writelines(_frame(0 if n == last else _MORE, part) for n, part in enumerate(parts))
        await self._writer.drain()

    async def receive(self) -> list[bytes]:
        """The parts of the next message."""
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    flags = await self._exactly(1)
            except TimeoutError:
                if not self._answers_pings:
                    continue
                if is_asked:
                    raise ZmtpError("the publisher does not answer any more") from None
                self._writer.write(_frame(_COMMAND, _PING + bytes(_TTL_BYTES)))
                is_asked = True
                continue
            async with asyncio.timeout(MESSAGE_S):
                if not flags[0] & _COMMAND:
                    return await self._message(flags[0])
                self._obey(await self._payload(flags[0], MAX_COMMAND_BYTES))
            is_asked = False
            await asyncio.sleep(COMMAND_PAUSE_S)

    async def _message(self, flags: int) -> list[bytes]:
        parts = [await self._payload(flags, MAX_MESSAGE_BYTES)]
        size = len(parts[0])
        while flags & _MORE:
            if len(parts) == MAX_PARTS:
                raise ZmtpError(f"the publisher sent a message of more than {MAX_PARTS} parts")
            flags = (await self._exactly(1))[0]
            parts.append(await self._payload(flags, MAX_MESSAGE_BYTES - size))
            size += len(parts[-1])
        return parts

    async def _payload(self, flags: int, most: int) -> bytes:
        if flags & ~(_MORE | _LONG | _COMMAND):
            raise ZmtpError("the publisher does not speak ZMTP")
        size = int.from_bytes(await self._exactly(8 if flags & _LONG else 1), "big")
        if size > most:
            raise ZmtpError(f"the publisher sent a message of more than {MAX_MESSAGE_BYTES} bytes")
        return await self._exactly(size)

    def _obey(self, command: bytes) -> None:
        if not command.startswith(_PING):
            return
        if self._writer.transport.get_write_buffer_size() > MAX_COMMAND_BYTES:
            raise ZmtpError("the publisher does not read what it asks for")
        self._writer.write(_frame(_COMMAND, _PONG + command[len(_PING) + _TTL_BYTES :]))

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ZmtpError("the publisher has closed the connection") from error

    async def greet(self, socket_type: bytes) -> None:
        """The handshake, without security, which engines do not support."""
        self._writer.write(_GREETING)
        greeting = await self._exactly(len(_GREETING))
        if greeting[0] != _GREETING[0] or greeting[9] != _GREETING[9] or greeting[10] < _GREETING[10]:
            raise ZmtpError("the publisher does not speak ZMTP 3")
        if greeting[_MECHANISM] != _GREETING[_MECHANISM]:
            raise ZmtpError("the publisher asks for a ZMTP mechanism other than NULL")
        self._answers_pings = greeting[10:12] >= _GREETING[10:12]
        ready = b"\5READY" + _property(b"Socket-Type", socket_type) + _property(b"Identity", b"")
        self._writer.write(_frame(_COMMAND, ready))
        response = await self._payload((await self._exactly(1))[0], MAX_COMMAND_BYTES)
        if not response.startswith(b"\5READY"):
            raise ZmtpError(f"the publisher refuses the connection: {response[:64]!r}")

    def close(self) -> None:
        self._writer.transport.abort()


async def connect(host: Lookup, port: int, socket_type: bytes) -> Peer:
    """Connect to a ZeroMQ socket, as a socket of this type. Raises OSError."""
    async with asyncio.timeout(CONNECT_S):
        peer = Peer(*await host.connected(lambda address: asyncio.open_connection(address, port)))
        try:
            await peer.greet(socket_type)
        except BaseException:
            peer.close()
            raise
        return peer


def _frame(flags: int, payload: bytes) -> bytes:
    if len(payload) > 255:
        return bytes([flags | _LONG]) + len(payload).to_bytes(8, "big") + payload
    return bytes([flags, len(payload)]) + payload


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
