"""Shares what a process of the data path knows with others, if its settings say so."""

from __future__ import annotations

import asyncio
import logging
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

log = logging.getLogger(__name__)

AGAIN_S = 1.0


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
            shares = queues.share_with_peers()
            self.peers = peers.Peers(settings, plane.ledger, plane.prefixes, now, rng, shares)

    async def start(self) -> None:
        """Listen. Raises OSError and peers.ConfigurationError."""
        if self.peers is not None:
            await self.peers.start()
            if self.peers.settings.finds:
                _ = self.peers.address

    async def run(self, client: cluster.Client | None, group: Sequence[str]) -> None:
        """Share until cancelled or stopped. `group`: what those have in common that find each other.
        Without a client, they know each other by their addresses.

        Requests do not depend on it, so no failure ends it: it begins again.
        """
        is_told = False
        while self.peers is not None and not self.peers.is_over:
            try:
                if not self.peers.port:
                    await self.start()
                await self._share(self.peers, client, group)
            except (OSError, peers.ConfigurationError) as error:
                if not is_told:  # such as the port, which the process that this one replaces still has
                    is_told = True
                    log.warning("peers: %s", error)
            except Exception:
                log.exception("peers: an error in sharing with other processes")
            await asyncio.sleep(AGAIN_S)

    async def _share(self, shared: peers.Peers, client: cluster.Client | None, group: Sequence[str]) -> None:
        async with asyncio.TaskGroup() as tasks:
            leases = None
            if shared.settings.finds and client is not None:
                member = f"{socket.gethostname()[:63]}-{os.getpid()}-{shared.own.member[:6]}"
                found = PeerLeases(client, member, shared.address, group, shared.found)
                leases = tasks.create_task(found.run())
            await shared.run()
            if leases is not None:
                leases.cancel()

    def stop(self) -> None:
        """Share nothing more, such as in a process that is replaced."""
        if self.peers is not None:
            self.peers.is_over = True

    def use(self) -> None:
        """There are other pools."""
        if self.peers is not None:
            self.peers.use()

    def statistics(self) -> dict[str, int]:
        return self.peers.statistics() if self.peers is not None else {}
