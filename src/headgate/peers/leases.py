"""Finds the other processes by their Leases, which have their addresses in an annotation.

A Lease is renewed every ten seconds; one that is not for thirty belongs to a process that is gone. Clocks
need not agree on that: each process watches for changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from headgate import api, cluster
from headgate.api import marks

log = logging.getLogger(__name__)

LABEL = f"{marks.DOMAIN}peers"
"""The label's value: a digest of what the processes have in common."""
ADDRESS = f"{marks.DOMAIN}peer-address"
"""Annotation: where the process listens, as host:port."""
FIELD_MANAGER = "headgate-peers"
RENEW_S = cluster.Presence.RENEW_S
LOOK_S = 2.0
FORGET_S = 300.0
"""Leases that were not renewed for so long are deleted: their processes were killed."""
MAX_PEERS = 64
MAX_ADDRESS = 300
_NOT_OF_NAMES = re.compile(r"[^a-z0-9-]+")


class PeerLeases:
    """The Leases of one group of processes in the namespace of the connection."""

    def __init__(
        self,
        client: cluster.Client,
        member: str,
        address: str,
        group: Sequence[str],
        found: Callable[[list[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`group`: what the processes have in common, such as the pools that they serve. `found` gets the
        addresses of all others."""
        name = _NOT_OF_NAMES.sub("-", member.lower()).strip("-")
        label = LABEL, hashlib.sha256("\n".join(group).encode()).hexdigest()[:32]
        self._presence = cluster.Presence(client, f"headgate-peer-{name}", label, FIELD_MANAGER, clock)
        self._client = client
        self._address = address
        self._found = found
        self._clock = clock
        self._renewed_at = -RENEW_S

    async def run(self) -> None:
        """Renew this process's Lease and look for others, until cancelled; then delete the Lease. While the
        API server cannot be reached, the processes found last stay."""
        is_told = False
        try:
            while True:
                try:
                    await self.look()
                    is_told = False
                except (cluster.ApiError, OSError) as error:
                    if not is_told:
                        is_told = True
                        log.warning("peers: Leases cannot be used: %s", error)
                await asyncio.sleep(LOOK_S)
        finally:
            with suppress(cluster.ApiError, OSError, TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._client.delete(api.Lease, self._presence.name)

    async def look(self) -> None:
        """Renew this process's Lease if it is due, look for others, and delete those of processes that are
        long gone. Raises cluster.ApiError."""
        await self.renew()
        self._found(await self.others())
        await self._presence.delete_silent(FORGET_S)

    async def renew(self) -> None:
        """Write the Lease if it is due. Raises cluster.ApiError."""
        now = self._clock()
        if now - self._renewed_at < RENEW_S:
            return
        await self._presence.write(self._presence.name, {ADDRESS: self._address})
        self._renewed_at = now

    async def others(self) -> list[str]:
        """The addresses of the other processes that live. Raises cluster.ApiError."""
        found = []
        for lease in await self._presence.live():
            address = (lease.metadata.annotations or {}).get(ADDRESS, "")[:MAX_ADDRESS]
            if lease.metadata.name != self._presence.name and address:
                found.append(address)
        return sorted(found)[:MAX_PEERS]
