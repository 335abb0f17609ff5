"""Serves gRPC calls on listening sockets, until it is drained."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Final

from headgate import loop_turns
from headgate.http2 import errors, frames, hpack
from headgate.http2.connection import Connection
from headgate.http2.hpack import Headers
from headgate.http2.limits import Holdings
from headgate.http2.stream import Stream
from headgate.rpc import requests, status
from headgate.rpc.calls import ServerCall, Services
from headgate.rpc.limits import Limits
from headgate.rpc.messages import MessageReader

_log = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
BACKLOG: Final = 1024
CLOSE_S: Final = 1.0
"""For clients to read that the server closes."""


class Server:
    """The calls of all connections of one server. To be used on one event loop."""

    def __init__(
        self,
        services: Services,
        turns: loop_turns.Turns,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: as `tls.for_server` prepares it; None for HTTP/2 without TLS ("prior knowledge")."""
        self._services = services
        self._turns = turns
        self._limits = limits or Limits()
        self._tls = tls
        self._held = Holdings(self._limits.max_held_bytes)
        self._sockets: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._last: tuple[Headers, requests.Request] | None = None
        """The headers of the last call: most calls have the same."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_draining = False
        self._emptied: asyncio.Future[None] | None = None
        self._rejected = 0
        self._calls = 0

    async def listen(self, host: str, port: int) -> int:
        """Accept connections at an address. Returns the port, which is chosen if it is 0."""
        loop = asyncio.get_running_loop()
        made = await loop.create_server(
            self.protocol,
            host,
            port,
            ssl=self._tls,
            ssl_handshake_timeout=self._handshake_timeout_s,
            backlog=BACKLOG,
            reuse_address=True,
        )
        return self._listens(made)

    async def listen_on(self, listening: socket.socket) -> int:
        """Accept connections of a socket, which is closed with the server. Returns its port."""
        made = await asyncio.get_running_loop().create_server(
            self.protocol,
            sock=listening,
            ssl=self._tls,
            ssl_handshake_timeout=self._handshake_timeout_s,
            backlog=BACKLOG,
        )
        return self._listens(made)

    @property
    def _handshake_timeout_s(self) -> float | None:
        return self._limits.handshake_timeout_s if self._tls is not None else None

    def _listens(self, made: asyncio.Server) -> int:
        self._sockets.append(made)
        self.start_sweeping()
        port: int = made.sockets[0].getsockname()[1]
        return port

    def start_sweeping(self) -> None:
        """Look after silent and stalled connections from now on; `listen` does it too."""
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def protocol(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self, self._turns, self._limits, self._held, is_client=False)

    # -- Role of its connections

    def made(self, connection: Connection) -> None:
        if self._is_draining or len(self._connections) >= self._limits.max_connections:
            self._rejected += 1
            connection.end(errors.ENHANCE_YOUR_CALM, "too many connections, or the server is shutting down")
            return
        self._connections.add(connection)

    def lost(self, connection: Connection, reason: str) -> None:
        self._connections.discard(connection)
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)
        _log.debug("a gRPC connection ended: %s", reason)

    def opened(self, connection: Connection, stream: Stream, headers: Headers) -> None:
        request = self._request(headers)
        http2 = connection.http2
        if request.is_malformed:
            http2.cancel(stream, errors.PROTOCOL_ERROR)
        elif request.http_status:
            block = hpack.encode([(b":status", request.http_status)])
            flags = frames.END_HEADERS | frames.END_STREAM
            http2.end(stream, frames.frame(frames.HEADERS, stream.id, block, flags))
        else:
            self._calls += 1
            reader = MessageReader(self._limits.max_message_bytes, self._held)
            self._begin(ServerCall(connection, stream, request.path, headers, reader), stream, request)

    def _begin(self, call: ServerCall, stream: Stream, request: requests.Request) -> None:
        stream.user = call
        if request.code:
            call.finish(request.code, request.message)
            return
        open_call = self._services.get(request.path)
        if open_call is None:
            call.finish(status.UNIMPLEMENTED, f"unknown method {request.path[:200]}")
            return
        try:
            call.start(open_call(call), request.timeout_s)
        except Exception:
            call.break_off("opening")

    def _request(self, headers: Headers) -> requests.Request:
        last = self._last
        if last is None or last[0] is not headers:
            self._last = last = (headers, requests.read(headers))
        return last[1]

    # -- its end

    async def drain(self, grace_s: float) -> None:
        """Stop listening, let calls finish for up to `grace_s` seconds, and close all connections."""
        self._is_draining = True
        self._stop_listening()
        for connection in self._connections:
            connection.drain()
        await self._empty(grace_s)
        await self.close()

    async def close(self) -> None:
        """Stop listening, and end all calls and connections at once."""
        self._is_draining = True
        self._stop_listening()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in [*self._connections]:
            connection.end(errors.NO_ERROR, "the server is shutting down")
        await self._empty(CLOSE_S)
        for connection in [*self._connections]:
            connection.abort("the server has shut down")
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            await each.wait_closed()

    async def _empty(self, timeout_s: float) -> None:
        """Wait until there are no connections."""
        if self._connections:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=timeout_s)
            self._emptied = None

    def _stop_listening(self) -> None:
        for each in self._sockets:
            each.close()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)
        now_s = loop.time()
        for connection in [*self._connections]:
            connection.sweep(now_s)

    def statistics(self) -> dict[str, int]:
        """Counts since the start, and what is in use now."""
        return {
            "connections": len(self._connections),
            "connections_rejected": self._rejected,
            "calls": self._calls,
            "calls_in_progress": sum(len(each.http2.streams) for each in self._connections),
            "held_bytes": self._held.used_bytes,
        }
