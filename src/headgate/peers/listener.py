"""Receives the reports of other members."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from headgate.fleet import sharing
from headgate.peers import wire
from headgate.peers.settings import is_loopback

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
"""Of members."""
MAX_HANDSHAKES = 64
"""Connections whose other end has not proved to be a member. Beyond, the oldest of them ends: a member needs
some milliseconds for its proof, and a stranger holds its place as long as it can."""
SILENT_S = 10.0
"""A connection without a report for this long is closed: a member reports twice a second at least."""
LOGGED_S = 30.0
"""Least interval between two warnings about refused connections."""


class Listener:
    """Calls `hear` with the member, its report, and whether it hashes prompts alike; `left` when its last
    connection has ended."""

    def __init__(
        self,
        own: wire.Identity,
        hear: Callable[[str, sharing.Report, bool], None],
        left: Callable[[str], None],
    ) -> None:
        self._own = own
        self._hear = hear
        self._left = left
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, str] = {}
        """The member at the other end; empty during the handshake."""
        self._logged_at = -LOGGED_S
        self.received = self.refused = 0
        """Reports, and connections and reports that were no good."""

    async def listen(self, host: str, port: int) -> int:
        """Returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        strangers = [each for each, member in self._connections.items() if not member]
        if len(strangers) >= MAX_HANDSHAKES:
            strangers[0].transport.abort()
        self._connections[writer] = ""
        try:
            await self._receive(reader, writer)
        except (wire.WireError, ValueError, TimeoutError) as error:
            self.refused += 1
            self._warn(writer, error)
        except (OSError, EOFError):
            pass
        finally:
            member = self._connections.pop(writer)
            writer.transport.abort()
            if member and member not in self._connections.values():
                self._left(member)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = str((writer.get_extra_info("peername") or ("",))[0])
        if self._own.is_local and not is_loopback(host):
            raise wire.WireError("it is on another machine, and peers.token_file is missing")
        member, seal, hashes = await wire.accept(reader, writer, self._own)
        if member == self._own.member:
            return  # this process has found itself in the list
        if sum(map(bool, self._connections.values())) >= MAX_CONNECTIONS:
            raise wire.WireError(f"there are {MAX_CONNECTIONS} connections of other members")
        self._connections[writer] = member
        same_hashes = hashes == self._own.hashes
        while True:
            async with asyncio.timeout(SILENT_S):
                data = await seal.receive(reader)
            report = sharing.decode(data)
            self.received += 1
            self._hear(member, report, same_hashes)

    def _warn(self, writer: asyncio.StreamWriter, error: Exception) -> None:
        now = time.monotonic()
        if now - self._logged_at >= LOGGED_S:
            self._logged_at = now
            host = (writer.get_extra_info("peername") or ("?",))[0]
            log.warning("peers: closed a connection from %s: %s", host, error or type(error).__name__)
