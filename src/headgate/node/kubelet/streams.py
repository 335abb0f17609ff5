"""The streams of one SPDY connection, over a connection's reader and writer.

What a stream's owner has not read yet is bounded for the whole connection: SPDY as Kubernetes uses it has no
flow control, so a stream that is not read holds up the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from headgate.node.kubelet import spdy

MAX_STREAMS = 256
"""Open at the same time on one connection; port-forward needs two for each forwarded connection."""
MAX_UNREAD_BYTES = 256 << 10
PING_S = 30.0
"""A peer that is gone without notice answers a ping with a reset, even while nothing is read from it."""
_READ_BYTES = 64 << 10
_FRAME_BYTES = 32 << 10
_BYTES_OF_PART = 64
"""What a part costs besides its bytes."""


class Connection:
    """Owns the streams; `streams` reads the connection, and must be running for any of them to get data."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = spdy.Decoder()
        self._encoder = spdy.Encoder()
        self._streams: dict[int, Stream] = {}
        self._last = 0
        """Number of the newest stream."""
        self._unread = 0
        self._was_read = asyncio.Event()

    async def streams(self) -> AsyncGenerator[Stream, None]:
        """Streams as the peer opens them, until it disconnects. Raises spdy.ProtocolError."""
        try:
            while data := await self._reader.read(_READ_BYTES):
                for frame in self._decoder.feed(data):
                    if (opened := self._received(frame)) is not None:
                        yield opened
                await self._writer.drain()
                while self._unread > MAX_UNREAD_BYTES:
                    self._was_read.clear()
                    await self._was_read.wait()
        except ConnectionError:
            pass
        finally:
            for stream in self._streams.values():
                stream.abandoned()

    async def ping(self) -> None:
        """Keep the connection alive until cancelled. Raises ConnectionError if the peer is gone."""
        number = 0
        while True:
            await asyncio.sleep(PING_S)
            number += 2
            await self.send(spdy.ping(number & 0x7FFF_FFFF))

    async def send(self, frame: bytes) -> None:
        """Returns when the peer accepts more. Raises ConnectionError."""
        if self._writer.is_closing():
            raise ConnectionResetError("the connection was closed")
        self._writer.write(frame)
        await self._writer.drain()

    def send_now(self, frame: bytes) -> None:
        """For small frames, which do not wait for the peer."""
        if not self._writer.is_closing():
            self._writer.write(frame)

    def was_read(self, size: int) -> None:
        self._unread -= size
        self._was_read.set()

    def forget(self, stream: int) -> None:
        """Neither side will send more on it."""
        self._streams.pop(stream, None)

    def _received(self, frame: spdy.Frame) -> Stream | None:
        match frame:
            case spdy.Opened():
                return self._opened(frame)
            case spdy.Data() if frame.stream in self._streams:
                self._unread += self._streams[frame.stream].received(frame.data, is_last=frame.is_last)
            case spdy.Reset() if frame.stream in self._streams:
                self._streams.pop(frame.stream).abandoned()
            case spdy.Ping() if frame.number % 2:
                self.send_now(spdy.ping(frame.number))
        return None

    def _opened(self, frame: spdy.Opened) -> Stream | None:
        if frame.stream <= self._last or not frame.stream % 2:
            raise spdy.ProtocolError(f"stream {frame.stream} follows stream {self._last}")
        self._last = frame.stream
        if len(self._streams) >= MAX_STREAMS:
            self.send_now(spdy.reset(frame.stream, spdy.REFUSED))
            return None
        stream = self._streams[frame.stream] = Stream(self, frame.stream, frame.headers)
        if frame.is_last:
            stream.received(b"", is_last=True)
        self.send_now(self._encoder.reply(frame.stream))
        return stream


class Stream:
    """Bytes in both directions. Each of them ends by itself; a reset ends both."""

    def __init__(self, connection: Connection, number: int, headers: spdy.Headers) -> None:
        self.headers = headers
        self._connection = connection
        self._number = number
        self._parts: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._is_read = True
        self._is_complete = False
        """The peer sends no more."""
        self._is_closed = False
        """We send no more."""
        self._is_abandoned = False

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises ConnectionResetError if the peer abandoned the stream."""
        while not self._parts:
            if self._is_abandoned:
                raise ConnectionResetError("the stream was reset")
            if self._is_complete:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        part = self._parts.popleft()
        self._connection.was_read(len(part) + _BYTES_OF_PART)
        return part

    def ignore_input(self) -> None:
        """Drop all that the peer sends."""
        self._is_read = False
        self._drop()

    async def write(self, data: bytes) -> None:
        """Returns when the peer accepts more. Raises ConnectionError."""
        for start in range(0, len(data), _FRAME_BYTES):
            if self._is_abandoned or self._is_closed:
                raise ConnectionResetError("the stream was reset")
            await self._connection.send(spdy.data(self._number, data[start : start + _FRAME_BYTES]))

    def close(self) -> None:
        """End our direction."""
        if not self._is_closed and not self._is_abandoned:
            self._is_closed = True
            self._connection.send_now(spdy.data(self._number, b"", is_last=True))
            self._forget_if_ended()

    def reset(self) -> None:
        """End both directions, unless they have ended."""
        if self._is_abandoned or (self._is_closed and self._is_complete):
            return
        self._connection.send_now(spdy.reset(self._number))
        self._connection.forget(self._number)
        self.abandoned()

    def received(self, data: bytes, *, is_last: bool) -> int:
        """Called by the connection; returns how much the stream holds more."""
        size = 0
        if data and self._is_read and not self._is_complete:
            self._parts.append(data)
            size = len(data) + _BYTES_OF_PART
        if is_last:
            self._is_complete = True
            self._forget_if_ended()
        self._arrived.set()
        return size

    def abandoned(self) -> None:
        """Called by the connection: the peer reset the stream, or is gone."""
        self._is_abandoned = True
        self._drop()
        self._arrived.set()

    def _drop(self) -> None:
        while self._parts:
            self._connection.was_read(len(self._parts.popleft()) + _BYTES_OF_PART)

    def _forget_if_ended(self) -> None:
        if self._is_closed and self._is_complete:
            self._connection.forget(self._number)
