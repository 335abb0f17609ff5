"""A client of HTTP/2 made of h2, which tests drive frame by frame."""

import asyncio
import contextlib
import json

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

from headgate.dataplane.http2.frames import FrameFilter

PATIENCE_S = 20.0


class H2Peer:
    """One connection to a port without TLS."""

    def __init__(self, reader, writer, *, acknowledges: bool = True) -> None:
        self.reader, self.writer = reader, writer
        self.acknowledges = acknowledges
        self.heard: list[events.Event] = []
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self.h2.initiate_connection()
        self.flush()
        self._filter = FrameFilter(-1e9)  # h2 takes a GOAWAY for the end
        self._reading = asyncio.create_task(self._read())
        self._changed = asyncio.Event()
        self.is_closed = False

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(1 << 16):
                data = self._filter.feed(data)
                while self._filter.rest:
                    data += self._filter.feed(self._filter.rest)
                for event in self.h2.receive_data(data):
                    self.heard.append(event)
                    if isinstance(event, events.DataReceived) and self.acknowledges:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.flush()
                self._changed.set()
        self.is_closed = True
        self._changed.set()

    async def until(self, holds) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    @property
    def is_told_to_leave(self) -> bool:
        """Whether a GOAWAY has arrived."""
        return self._filter.is_leaving

    def post(self, body=None, path: str = "/v1/completions", *, ends: bool = True, **headers: str) -> int:
        """Begin a request for the model "m"; returns its stream."""
        body = {"model": "m", "prompt": "hello"} if body is None else body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        number = self.h2.get_next_available_stream_id()
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "gateway")]
        self.h2.send_headers(number, [*pseudo, *named])
        if data or ends:
            self.h2.send_data(number, data, end_stream=ends)
        self.flush()
        return number

    def get(self, path: str, method: str = "GET") -> int:
        number = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "gateway")]
        self.h2.send_headers(number, pseudo, end_stream=True)
        self.flush()
        return number

    def of(self, number: int, kind: type) -> list:
        return [
            event
            for event in self.heard
            if isinstance(event, kind) and getattr(event, "stream_id", None) == number
        ]

    def body(self, number: int) -> bytes:
        """What has arrived so far."""
        return b"".join(event.data for event in self.of(number, events.DataReceived))

    def headers(self, number: int) -> dict[str, str]:
        (head,) = self.of(number, events.ResponseReceived)
        return dict(head.headers)

    async def response(self, number: int) -> tuple[str, bytes]:
        """Status and body, once the stream has ended."""
        await self.until(lambda: self.of(number, events.StreamEnded) or self.of(number, events.StreamReset))
        assert not self.of(number, events.StreamReset)
        return self.headers(number)[":status"], self.body(number)

    def close(self) -> None:
        self._reading.cancel()
        self.writer.transport.abort()


async def connect(port: int, **how) -> H2Peer:
    return H2Peer(*await asyncio.open_connection("127.0.0.1", port), **how)
