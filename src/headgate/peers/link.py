"""The connection to one other member, on which this process reports."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from headgate.peers import wire
from headgate.peers.settings import split

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 1 << 20
"""With more than this unsent, further reports are dropped; the next whole one replaces them."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
"""Between attempts to connect: twice as long each time, half of it by chance."""
CONNECT_S = 3.0


class Link:
    """Connects, and connects again whenever the connection ends, until `run` is cancelled."""

    def __init__(
        self,
        address: str,
        own: wire.Identity,
        joined: Callable[[Link], None],
        rng: random.Random,
    ) -> None:
        """`joined` is called each time the other member is connected, and needs a whole report."""
        self.address = address
        self.is_self = False
        """Whether it is this process that listens there."""
        self.dropped = 0
        self.sent = 0
        self._own = own
        self._joined = joined
        self._rng = rng
        self._transport: asyncio.WriteTransport | None = None
        self._seal: wire.Seal | None = None

    @property
    def is_up(self) -> bool:
        return self._transport is not None

    def send(self, report: bytes) -> None:
        """Send a report without waiting, or drop it."""
        transport, seal = self._transport, self._seal
        if transport is None or seal is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.dropped += 1
            return
        self.sent += 1
        transport.write(seal.framed(report))

    async def run(self) -> None:
        pause_s, is_told = MIN_PAUSE_S, False
        while not self.is_self:
            try:
                await self._connect()
                pause_s, is_told = MIN_PAUSE_S, False
            except (OSError, EOFError, TimeoutError, wire.WireError) as error:
                if not is_told and isinstance(error, wire.WireError):
                    is_told = True
                    log.warning("peers: %s: %s", self.address, error)
            await asyncio.sleep(pause_s * (0.5 + self._rng.random() / 2))
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _connect(self) -> None:
        """One connection, until it ends. Raises what `wire.dial` does if it did not begin."""
        host, port = split(self.address)
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
        try:
            member, self._seal, _ = await wire.dial(reader, writer, self._own)
            if member == self._own.member:
                self.is_self = True
                return
            self._transport = writer.transport
            self._joined(self)
            await reader.read(1)  # the other end sends nothing more: this waits for its end
        finally:
            self._transport = None
            writer.transport.abort()
