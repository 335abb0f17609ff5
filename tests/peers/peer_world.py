"""Members on loopback ports, without the rest of a gateway."""

import asyncio
import contextlib
import random

from headgate import fleet, peers, routing
from headgate.requests.data_plane import new_prefixes

POD = routing.Endpoint("default/pod-0", "127.0.0.1", 8000)
PATIENCE_S = 30.0


class Member:
    """A process's share of the exchange, with one endpoint."""

    def __init__(self, **settings):
        self.ledger, self.prefixes = fleet.Ledger(), new_prefixes()
        self.load = self.ledger.load(POD)
        self.wakes = 0
        self.queues, self.heard = b"", {}
        """What it reports of its queues, and what it has heard of those of others."""
        clock = asyncio.get_running_loop().time
        chosen = peers.Settings(finds=True, **settings)
        self.peers = peers.Peers(chosen, self.ledger, self.prefixes, clock, random.Random(1), self)
        self.running = None

    def changed(self):
        self.wakes += 1

    def report(self, now, *, is_heard):
        return self.queues if is_heard else b""

    def hear(self, member, data, now):
        self.heard[member] = data

    def forget(self, member, now):
        self.heard.pop(member, None)

    async def start(self):
        await self.peers.start()
        self.running = asyncio.ensure_future(self.peers.run())
        return self

    @property
    def address(self):
        return self.peers.address

    def book(self):
        return self.load.book(1000, 10, asyncio.get_running_loop().time())

    async def stop(self):
        if self.running is not None:
            self.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.running
            self.running = None


async def until(condition):
    """Wait until it holds; fails after a long time only."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)
