"""Endpoints that speak HTTP/2, using the server side of h2."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

PATIENCE_S = 30.0


@dataclass
class Stream:
    """One request as an endpoint received it; the test answers it."""

    connection: Connection
    id: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    frames: int = 0
    """In how many frames the body came."""

    @property
    def json(self):
        return json.loads(self.body)

    def head(self, status: int = 200, *, end: bool = False, **headers: str) -> None:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.connection.h2.send_headers(self.id, [(":status", str(status)), *named], end_stream=end)
        self.connection.flush()

    def write(self, data: bytes, *, end: bool = False) -> None:
        """As much at once as the windows of the gateway take; the rest when they open."""
        self.connection.queue(self.id, data, end=end)

    def answer(self, body: bytes = b"ok", status: int = 200, **headers: str) -> None:
        """With its length, as almost all answers have it that are no streams."""
        self.head(status, content_length=str(len(body)), **headers)
        self.write(body, end=True)

    def end(self, **trailers: str) -> None:
        if trailers:
            self.connection.h2.send_headers(self.id, list(trailers.items()), end_stream=True)
            self.connection.flush()
        else:
            self.write(b"", end=True)

    def reset(self, code: int = 2) -> None:
        self.connection.h2.reset_stream(self.id, code)
        self.connection.flush()


class Connection(asyncio.Protocol):
    """The server's side of one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.streams: dict[int, Stream] = {}
        self._queued: list[tuple[int, bytes, bool]] = []
        self.takes_bodies = True
        """Whether what came of bodies is acknowledged, so that more may come."""

    def connection_made(self, transport) -> None:
        self.transport = transport
        self._endpoint.connections.append(self)
        self.lost = asyncio.get_running_loop().create_future()
        self.h2.initiate_connection()
        if self._endpoint.window is not None:  # in effect as soon as the gateway has heard of it
            self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: self._endpoint.window})
        self.flush()

    def connection_lost(self, error) -> None:
        self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            self._take(event)
        self._send_queued()
        self.flush()

    def _take(self, event) -> None:
        if isinstance(event, events.RequestReceived):
            self.streams[event.stream_id] = Stream(self, event.stream_id, dict(event.headers))
            self._endpoint.begun.append(self.streams[event.stream_id])
        elif isinstance(event, events.DataReceived):
            stream = self.streams[event.stream_id]
            stream.body += event.data
            stream.frames += 1
            if self.takes_bodies:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            self._endpoint.called(self.streams[event.stream_id])

    def queue(self, stream_id: int, data: bytes, *, end: bool) -> None:
        self._queued.append((stream_id, data, end))
        self._send_queued()

    def _send_queued(self) -> None:
        while self._queued:
            stream_id, data, end = self._queued[0]
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            if data and room <= 0:
                break
            sent, rest = data[:room], data[room:]
            self.h2.send_data(stream_id, sent, end_stream=end and not rest)
            if rest:
                self._queued[0] = (stream_id, rest, end)
            else:
                self._queued.pop(0)
            self.flush()

    @property
    def unsent_bytes(self) -> int:
        """Of bodies that the gateway's windows do not take yet."""
        return sum(len(data) for _, data, _ in self._queued)

    def goaway(self, last_stream_id: int) -> None:
        """Says that it leaves; for h2 that would be the end of all streams, so the frame is written here."""
        payload = struct.pack(">II", last_stream_id, 0)
        self.transport.write(len(payload).to_bytes(3, "big") + b"\x07\0\0\0\0\0" + payload)

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.transport.write(data)


class Endpoint:
    """A scripted HTTP/2 server; calls are answered by `behave` if it is set, else by the test itself."""

    def __init__(
        self, port: int, behave: Callable[[Stream], None] | None, tls: ssl.SSLContext | None, window
    ) -> None:
        self.port, self.behave, self._tls, self.window = port, behave, tls, window
        self.begun: list[Stream] = []
        """Requests of which the head came."""
        self.calls: list[Stream] = []
        self.connections: list[Connection] = []
        self._unanswered: asyncio.Queue[Stream] = asyncio.Queue()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), "127.0.0.1", self.port, reuse_address=True, ssl=self._tls
        )

    def called(self, stream: Stream) -> None:
        self.calls.append(stream)
        if self.behave is not None:
            self.behave(stream)
        else:
            self._unanswered.put_nowait(stream)

    async def call(self) -> Stream:
        """The next request that nobody has answered yet."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._unanswered.get()

    async def stop(self) -> None:
        self._server.close()
        for connection in self.connections:
            connection.transport.abort()
        await self._server.wait_closed()


@pytest.fixture
async def start_http2_endpoint(held_port: Callable[[], int]) -> AsyncIterator[Callable[..., object]]:
    """Starts one: `behave` answers its calls, `window` is its initial one for the bodies of requests."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(behave=None, tls=None, window=None) -> Endpoint:
            endpoint = Endpoint(held_port(), behave, tls, window)
            await endpoint.start()
            stack.push_async_callback(endpoint.stop)
            return endpoint

        yield start
