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
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)

LABEL = f"{marks.DOMAIN}peers"
"""The label's value: a digest of what the processes have in common."""
ADDRESS = f"{marks.DOMAIN}peer-address"
"""Annotation: where the process listens, as host:port."""
FIELD_MANAGER = "headgate-peers"
RENEW_S = 10.0
LOOK_S = 2.0
GONE_S = 30.0
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
        self._name = f"headgate-peer-{name}"
        self._client = client
        self._address = address
        self._scope = hashlib.sha256("\n".join(group).encode()).hexdigest()[:32]
        self._found = found
        self._clock = clock
        self._renewed_at = -RENEW_S
        self._seen: dict[str, tuple[str | None, float]] = {}
        """The renewal time in each Lease, and since when it has been unchanged."""

    async def run(self) -> None:
        """Renew this process's Lease and look for others, until cancelled; then delete the Lease. While the
        API server cannot be reached, the processes found last stay."""
        is_told = False
        try:
            while True:
                try:
                    await self.renew()
                    self._found(await self.others())
                    is_told = False
                except (cluster.ApiError, OSError) as error:
                    if not is_told:
                        is_told = True
                        log.warning("peers: Leases cannot be used: %s", error)
                await asyncio.sleep(LOOK_S)
        finally:
            with suppress(cluster.ApiError, OSError, TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._client.delete(api.Lease, self._name)

    async def renew(self) -> None:
        """Write the Lease if it is due. Raises cluster.ApiError."""
        now = self._clock()
        if now - self._renewed_at < RENEW_S:
            return
        lease = {
            "apiVersion": api.Lease.resource.api_version,
            "kind": api.Lease.resource.kind,
            "metadata": {
                "name": self._name,
                "labels": {LABEL: self._scope},
                "annotations": {ADDRESS: self._address},
            },
            "spec": {
                "holderIdentity": self._name,
                "leaseDurationSeconds": int(GONE_S),
                "renewTime": timestamps.microseconds(time.time()),
            },
        }
        await self._client.patch(
            api.Lease,
            self._name,
            None,
            lease,
            cluster.PatchType.APPLY,
            field_manager=FIELD_MANAGER,
            force=True,
        )
        self._renewed_at = now

    async def others(self) -> list[str]:
        """The addresses of the other processes that live. Raises cluster.ApiError."""
        now = self._clock()
        leases = await self._client.list(
            api.Lease, self._client.namespace, label_selector=f"{LABEL}={self._scope}"
        )
        self._seen = {
            lease.metadata.name: self._seen.get(lease.metadata.name, (None, now)) for lease in leases
        }
        found = []
        for lease in leases:
            name, renewed = lease.metadata.name, lease.spec.renew_time
            known, since = self._seen[name]
            self._seen[name] = renewed, since if renewed == known else now
            address = (lease.metadata.annotations or {}).get(ADDRESS, "")[:MAX_ADDRESS]
            if name != self._name and address and now - self._seen[name][1] < GONE_S:
                found.append(address)
        return sorted(found)[:MAX_PEERS]
