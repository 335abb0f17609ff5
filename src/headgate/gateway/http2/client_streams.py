"""The requests of one HTTP/2 connection, each on a lane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from headgate.gateway.http2.lane import Lane
from headgate.gateway.http2.request_head import HeadReader
from headgate.http2 import Headers, Stream, errors

if TYPE_CHECKING:
    from headgate.http2 import Connection

MAX_IDLE: Final = 4
"""Lanes that are kept for further requests: each counts as a client connection."""


class Home(Protocol):
    """All connections of the process."""

    def made(self, streams: ClientStreams) -> None: ...
    def lost(self, streams: ClientStreams) -> None: ...


class ClientStreams:
    """The `Role` of a connection. There is always a lane: when it has been idle for too long, or must make
    room for another client, the connection ends."""

    __slots__ = ("_heads", "_home", "_idle", "_lanes", "_loop", "_make", "_open")

    def __init__(
        self, home: Home, make: Callable[[], asyncio.Protocol], loop: asyncio.AbstractEventLoop
    ) -> None:
        """`make`: makes the HTTP/1.1 protocol of a lane."""
        self._home = home
        self._make = make
        self._loop = loop
        self._heads = HeadReader()
        self._lanes: set[Lane] = set()
        self._idle: list[Lane] = []
        self._open: Connection | None = None

    # -- Role of its connection

    def made(self, connection: Connection) -> None:
        self._open = connection
        self._home.made(self)
        self._add_idle()

    def opened(self, connection: Connection, stream: Stream, headers: Headers) -> None:
        head = self._heads.read(headers)
        if head is None:
            connection.http2.cancel(stream, errors.PROTOCOL_ERROR)
        elif self._idle:
            self._idle.pop().begin(stream, head)
        else:
            lane = self._new_lane()
            lane.begin(stream, head)
            lane.connect()

    def lost(self, connection: Connection, reason: str) -> None:
        self._open = None
        self._home.lost(self)
        for lane in list(self._idle):
            lane.abort()

    # -- Owner of its lanes

    @property
    def connection(self) -> Connection | None:
        """None once it is lost."""
        return self._open

    def get_extra_info(self, name: str) -> Any:
        return self._open.get_extra_info(name) if self._open is not None else None

    def is_free(self, lane: Lane) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append(lane)
        else:
            self._loop.call_soon(lane.close)

    def is_gone(self, lane: Lane, *, was_idle: bool) -> None:
        self._lanes.discard(lane)
        if lane in self._idle:
            self._idle.remove(lane)
        if self._lanes or self._open is None:
            return
        if was_idle:
            self.end("it was idle for too long, or had to make room")
        else:
            self._loop.call_soon(self._add_idle)

    def is_refused(self, lane: Lane) -> None:
        self.end("too many clients")

    def _new_lane(self) -> Lane:
        lane = Lane(self, self._make(), self._loop)
        self._lanes.add(lane)
        return lane

    def _add_idle(self) -> None:
        if not self._lanes and self._open is not None and self._open.is_open and not self._open.is_draining:
            lane = self._new_lane()
            self._idle.append(lane)
            lane.connect()

    # -- its end

    def end(self, reason: str) -> None:
        """End the connection, unless requests are in progress: then with the last of them."""
        if self._open is None:
            return
        if self._open.http2.streams:
            self._open.drain()
        else:
            self._open.end(errors.NO_ERROR, reason)
