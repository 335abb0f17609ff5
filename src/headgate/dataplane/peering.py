"""Shares what a process of the data path knows with others, if its settings say so."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headgate import peers
from headgate.peers.leases import PeerLeases

if TYPE_CHECKING:
    from headgate import cluster
    from headgate.dataplane.queueing import Queues
    from headgate.dataplane.settings import Peers
    from headgate.requests.data_plane import DataPlane


class Peering:
    """Does nothing if neither addresses nor discovery are set."""

    def __init__(
        self,
        section: Peers,
        plane: DataPlane,
        queues: Queues,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Made before the first request. Raises peers.ConfigurationError."""
        self._queues = queues
        settings = peers.Settings(
            addresses=section.addresses,
            host=section.host,
            port=section.port,
            advertise=section.advertise,
            token_file=section.token_file,
            finds=section.discovery,
            period_s=section.interval_s,
        )
        self.peers: peers.Peers | None = None
        if settings.is_on:
            self.peers = peers.Peers(settings, plane.ledger, plane.prefixes, now, rng, self._changed)

    async def start(self) -> None:
        """Listen. Raises OSError and peers.ConfigurationError."""
        if self.peers is not None:
            await self.peers.start()
            if self.peers.settings.finds:
                _ = self.peers.address

    async def run(self, client: cluster.Client, group: Sequence[str]) -> None:
        """Share until cancelled. `group`: what those have in common that find each other."""
        shared = self.peers
        if shared is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(shared.run())
            if shared.settings.finds:
                member = f"{socket.gethostname()[:63]}-{os.getpid()}-{shared.own.member[:6]}"
                leases = PeerLeases(client, member, shared.address, group, shared.found)
                tasks.create_task(leases.run())

    def use(self) -> None:
        """There are other pools."""
        if self.peers is not None:
            self.peers.use()

    def _changed(self) -> None:
        """Other processes have less, or more, in flight: queued requests may go."""
        for queue in self._queues.all():
            if queue.held:
                queue.wake()

    def statistics(self) -> dict[str, int]:
        return self.peers.statistics() if self.peers is not None else {}
