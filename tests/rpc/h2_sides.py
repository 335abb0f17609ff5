"""One side of an HTTP/2 connection of ours without a socket, and h2's as the other, independent one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from headgate.http2.limits import Holdings
from headgate.http2.receiver import Receiver
from headgate.http2.streams import Http2
from headgate.rpc.errors import CallError
from headgate.rpc.limits import Limits
from headgate.rpc.messages import MessageReader

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/test.Test/Echo"),
    (":authority", "test"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def frame(kind, payload=b"", *, flags=0, stream=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def framed(message: bytes) -> bytes:
    """A message as gRPC writes it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Call:
    """The user of a stream, which writes down what it hears."""

    def __init__(self, side, stream) -> None:
        self.side, self.stream = side, stream
        self.heard: list[object] = []
        self.writable = 0
        self.reader = MessageReader(side.limits.max_message_bytes, side.held)

    def _note(self, *event) -> None:
        self.heard.append(event)
        self.side.heard.append((self.stream.id, *event))

    def receive(self, data, begin, end):
        self.reader.read(self.side.http2, self.stream, self, data, begin, end)

    def take(self, message):
        self._note("message", message)

    def receive_headers(self, headers):
        self._note("headers", headers)

    def receive_end(self, headers):
        if not self.reader.is_between:
            self.reject(CallError(13, "the stream ended within a message"))
        else:
            self._note("end", headers)

    def reject(self, error):
        self._note("rejected", error.status)
        self.reader.drop()
        self.side.http2.cancel(self.stream, 2)

    def expire(self):
        self.reject(CallError(4, "a message was incomplete for too long"))

    def lose(self, code, reason, is_unprocessed):
        self.reader.drop()
        self._note("lost", code, is_unprocessed)

    def tell_writable(self):
        self.writable += 1


class Side:
    """A server's or client's side of ours."""

    def __init__(self, limits: Limits | None = None, *, is_client: bool = False) -> None:
        limits = limits or Limits()
        self.limits = limits
        self.held = Holdings(limits.max_held_bytes)
        self.http2 = Http2(limits, self.held, 0.0, is_client=is_client)
        self.receiver = Receiver(self.http2)
        self.calls: dict[int, Call] = {}
        self.heard: list[object] = []

    def feed(self, data: bytes, now_s: float = 0.0) -> None:
        rest = self.receiver.receive(data, self, now_s, math.inf)
        assert rest == b""

    def opened(self, stream, headers) -> None:
        self.calls[stream.id] = stream.user = Call(self, stream)
        self.heard.append((stream.id, "opened", headers))

    def acknowledged(self, data) -> None:
        self.heard.append(("acknowledged", data))

    def leaving(self) -> None:
        self.heard.append("leaving")


def h2_client(**settings: int) -> H2Connection:
    """A client of h2, whose first bytes are in its buffer."""
    client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    client.initiate_connection()
    if settings:
        client.update_settings({SettingCodes[name]: value for name, value in settings.items()})
    return client


def greeted(limits: Limits | None = None) -> tuple[Side, H2Connection]:
    """A server's side of ours and a client of h2 that know each other's settings."""
    server, client = Side(limits), h2_client()
    server.feed(client.data_to_send())
    client.receive_data(server.http2.take())
    server.feed(client.data_to_send())
    return server, client


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The pieces of data that is cut at these places."""
    ends = [0, *sorted(place for place in places if 0 < place < len(data)), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(ends)]
