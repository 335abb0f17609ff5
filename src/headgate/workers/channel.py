"""The channel between a supervisor and a worker: msgpack messages, each preceded by its length."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Generic, TypeVar

import msgspec

from headgate.workers.messages import Order, Report

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_CARRIED_BYTES = MAX_MESSAGE_BYTES // 2
"""Longest body that a message may carry. The receiver of a longer message treats it as an error and closes
the channel."""
MAX_UNREAD_BYTES = 1024 * 1024
"""With more unread bytes than this, the other end is considered stuck and gets no further messages."""

Received = TypeVar("Received")
Sent = TypeVar("Sent")

_LENGTH = struct.Struct("!I")
_encoder = msgspec.msgpack.Encoder()


class Closed(Exception):  # noqa: N818 - reads as what it says
    """The other end is gone, or sent an invalid message."""


class Channel(Generic[Received, Sent]):
    """One end of the channel."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: msgspec.msgpack.Decoder[Received],
    ) -> None:
        self._reader, self._writer, self._decoder = reader, writer, decoder

    async def receive(self) -> Received:
        """Return the next message. Raises Closed."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > MAX_MESSAGE_BYTES:
                raise Closed(f"a message of {length} bytes")
            return self._decoder.decode(await self._reader.readexactly(length))
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            raise Closed(str(error)) from error

    def send(self, message: Sent) -> bool:
        """Send without waiting; return whether the other end still reads."""
        transport = self._writer.transport
        if transport.is_closing() or transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            return False
        data = _encoder.encode(message)
        self._writer.write(_LENGTH.pack(len(data)) + data)
        return True

    async def flush(self, limit_s: float) -> None:
        """Wait until all is written, for at most `limit_s` seconds."""
        transport = self._writer.transport
        if transport.is_closing():
            return  # the limits of a uvloop transport do not survive its close
        transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(limit_s):
                await self._writer.drain()
        except (OSError, TimeoutError):
            transport.abort()

    def close(self) -> None:
        self._writer.transport.abort()


async def to_worker(sock: socket.socket) -> Channel[Report, Order]:
    """The supervisor's end."""
    return Channel(*await asyncio.open_unix_connection(sock=sock), msgspec.msgpack.Decoder(Report))


async def to_supervisor(sock: socket.socket) -> Channel[Order, Report]:
    """A worker's end."""
    return Channel(*await asyncio.open_unix_connection(sock=sock), msgspec.msgpack.Decoder(Order))
