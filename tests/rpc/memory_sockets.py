"""Connections of our server without sockets, for virtual time; h2's client is at the other end."""

from __future__ import annotations

import asyncio

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2_sides import HEADERS, framed

from headgate import loop_turns, rpc


class Socket(asyncio.Transport):
    """Passes on what is written, unless it is stuck."""

    def __init__(self, peer: Peer) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.peer = peer
        self.is_stuck = False
        self.is_closed = False
        self.is_reading = True
        self.unsent = 0

    def write(self, data):
        if self.is_stuck:
            self.unsent += len(data)
        else:
            self.peer.received(bytes(data))

    def get_write_buffer_size(self):
        return self.unsent

    def set_write_buffer_limits(self, high=None, low=None): ...

    def is_closing(self):
        return self.is_closed

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def close(self):
        self.is_closed = True
        if not self.is_stuck:
            self._end()

    def abort(self):
        self.is_closed = True
        self._end()

    def _end(self):
        asyncio.get_running_loop().call_soon(self.peer.ended)


class Peer:
    """A client of h2 and its connection to a server of ours."""

    def __init__(self, server: rpc.Server, *, greets: bool = True) -> None:
        self.heard: list[object] = []
        self.is_lost = False
        self.answers = True
        self._unsent = b""
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self.h2.initiate_connection()
        self.socket = Socket(self)
        self.connection = server.protocol()
        self.answers = greets
        self.connection.connection_made(self.socket)
        if greets:
            self.flush()

    def received(self, data: bytes) -> None:
        self.heard += self.h2.receive_data(data)
        replies = self.h2.data_to_send()
        if self.answers:  # not yet: the server is in the middle of what it does
            self._unsent += replies
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        data, self._unsent = self._unsent + self.h2.data_to_send(), b""
        if data and not self.is_lost:
            self.connection.data_received(data)

    def open(self, *messages: bytes, path: str = "/test.Test/Echo") -> int:
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, [*HEADERS[:2], (":path", path), *HEADERS[3:]])
        for message in messages:
            self.h2.send_data(number, framed(message))
        self.flush()
        return number

    def end(self, number: int) -> None:
        self.h2.end_stream(number)
        self.flush()

    def ended(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.connection.connection_lost(None)

    def of(self, kind: type) -> list[object]:
        return [event for event in self.heard if isinstance(event, kind)]

    def status(self, number: int) -> str | None:
        """The grpc-status of a call that has ended."""
        found = None
        for event in self.of(events.TrailersReceived) + self.of(events.ResponseReceived):
            if event.stream_id == number:
                found = dict(event.headers).get("grpc-status", found)
        return found


def new_server(services, limits=None) -> rpc.Server:
    """A server that listens nowhere."""
    return rpc.Server(services, loop_turns.Turns(asyncio.get_running_loop()), limits)
