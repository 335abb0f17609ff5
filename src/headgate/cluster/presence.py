"""The Leases by which the processes of one group know of each other.

A Lease that is not renewed for thirty seconds belongs to a process that is gone. Clocks need not agree on
that, as each process watches for changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import ClassVar

from lightkube.types import PatchType

from headgate import api
from headgate.cluster.client import Client
from headgate.cluster.errors import NotFound
from headgate.kubeschema import timestamps


class Presence:
    """One process's Lease, and those of its group, in the namespace of the connection. Methods raise ApiError
    if the server denies access."""

    RENEW_S: ClassVar = 10.0
    """How often a Lease is to be written, at least."""
    GONE_S: ClassVar = 30.0

    def __init__(
        self,
        client: Client,
        name: str,
        label: tuple[str, str],
        field_manager: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name`: of this process's Lease. `label`: what the Leases of the group have."""
        self.name = name
        self._client = client
        self._label = label
        self._field_manager = field_manager
        self._clock = clock
        self._seen: dict[str, tuple[str | None, float]] = {}
        """The renewal time in each Lease, and since when it has been unchanged."""

    async def write(self, holder: str, annotations: Mapping[str, str]) -> None:
        """Write this process's Lease, renewed now."""
        lease = {
            "apiVersion": api.Lease.resource.api_version,
            "kind": api.Lease.resource.kind,
            "metadata": {
                "name": self.name,
                "labels": dict([self._label]),
                "annotations": dict(annotations),
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": int(self.GONE_S),
                "renewTime": timestamps.microseconds(time.time()),
            },
        }
        await self._client.patch(
            api.Lease,
            self.name,
            None,
            lease,
            PatchType.APPLY,
            field_manager=self._field_manager,
            force=True,
        )

    async def live(self) -> list[api.Lease]:
        """The Leases of the processes that are not gone, this one included."""
        now, (label, value) = self._clock(), self._label
        leases = await self._client.list(api.Lease, self._client.namespace, label_selector=f"{label}={value}")
        names = {lease.metadata.name for lease in leases}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        return [lease for lease in leases if self._silent_s(lease, now) < self.GONE_S]

    def _silent_s(self, lease: api.Lease, now: float) -> float:
        name, renewed = lease.metadata.name, lease.spec.renew_time
        known, since = self._seen.get(name, (None, now))
        if renewed != known:
            since = now
        self._seen[name] = renewed, since
        return now - since

    async def delete_silent(self, silent_s: float) -> None:
        """Delete the Leases that have been silent for so long."""
        now = self._clock()
        for name, (_, since) in list(self._seen.items()):
            if now - since >= silent_s:
                del self._seen[name]
                with suppress(NotFound):
                    await self._client.delete(api.Lease, name)
