"""Leader election by a Lease: of several processes, one acts, and another takes over when it is gone.

`Candidate` decides, without I/O or a clock. `Election` is its shell: it reads and writes the Lease.

Two never lead at once, as far as their clocks run at the same rate. A leader counts its time from before the
request that renewed the Lease, the others count from after they saw the renewal, and the leader's time is the
shorter one. So a leader that was paused or cut off knows that its time is over as soon as it runs again, if
it asks `is_held` before it acts. What it had sent before may still arrive: guard writes by resourceVersion.
Whoever deletes the Lease by hand takes this away: another may lead at once, and the leader finds out with its
next renewal, or after the rest of its time if it is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from typing import Protocol

import msgspec

from headgate import api
from headgate.cluster.client import Client
from headgate.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from headgate.kubeschema import timestamps

log = logging.getLogger(__name__)


class Leadership(Protocol):
    """Whether this process may act."""

    def is_held(self) -> bool:
        """To be asked before every write."""
        ...

    async def acquired(self) -> None:
        """Return once this process may act."""


class Undisputed:
    """Leadership of a process without rivals."""

    def is_held(self) -> bool:
        return True

    async def acquired(self) -> None:
        """Return at once."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds; the defaults are those of Kubernetes' own components."""

    lease_s: float = 15.0
    """How long the others wait after the last renewal that they saw."""
    lead_s: float = 10.0
    """How long a leader acts after its last renewal; less than `lease_s`."""
    retry_s: float = 2.0
    """Interval of renewals, and of attempts to become leader."""

    @classmethod
    def of(cls, lease_s: float) -> Terms:
        """With the usual proportions."""
        return cls(lease_s=lease_s, lead_s=lease_s * 2 / 3, retry_s=lease_s * 2 / 15)

    def problem(self) -> str:
        """Why these durations do not work; empty if they do."""
        if not 0 < self.retry_s < self.lead_s < self.lease_s:
            return (
                f"retry ({self.retry_s:g} s) must be shorter than lead ({self.lead_s:g} s), "
                f"and that shorter than lease ({self.lease_s:g} s)"
            )
        return ""


class Candidate:
    """One process's view of the Lease. Times are seconds of a clock that also counts while suspended."""

    def __init__(self, identity: str, terms: Terms) -> None:
        self.identity = identity
        self._terms = terms
        self._seen: api.LeaseSpec | None = None
        self._seen_at = 0.0
        self._lead_until = 0.0
        self.is_leader = False
        """Whether it holds the Lease, as far as it knows; its time may be over nevertheless."""

    def leads(self, now: float) -> bool:
        return self.is_leader and now < self._lead_until

    def saw(self, lease: api.LeaseSpec | None, now: float) -> None:
        """The server returned this Lease; None if it does not exist."""
        if lease != self._seen:
            self._seen, self._seen_at = lease, now
        if lease is None or lease.holder_identity != self.identity:
            self.is_leader = False

    def wanted(self, unix_s: float, now: float) -> api.LeaseSpec | None:
        """What to write in order to lead or to go on; None while another process holds the Lease."""
        seen = self._seen
        written = timestamps.microseconds(unix_s)
        if seen is not None and seen.holder_identity == self.identity:
            return msgspec.structs.replace(
                seen, renew_time=written, lease_duration_seconds=_whole(self._terms.lease_s)
            )
        if seen is not None and seen.holder_identity and now < self._expires_at(seen):
            return None
        return api.LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=_whole(self._terms.lease_s),
            acquire_time=written,
            renew_time=written,
            lease_transitions=(seen.lease_transitions or 0) + 1 if seen is not None else 0,
        )

    def wrote(self, lease: api.LeaseSpec, sent_at: float, now: float) -> None:
        """The server accepted this Lease; the request was sent at `sent_at`."""
        self._seen, self._seen_at = lease, now
        self.is_leader = True
        self._lead_until = sent_at + self._terms.lead_s

    def wait_s(self, now: float) -> float:
        """Seconds until it should look at the Lease again."""
        seen, retry_s = self._seen, self._terms.retry_s
        if seen is None or not seen.holder_identity or self.is_leader:
            return retry_s
        return min(retry_s, max(self._expires_at(seen) - now, 0.05))

    def released(self) -> api.LeaseSpec | None:
        """What to write at the end, so that another process leads at once; None if it does not lead."""
        if not self.is_leader or self._seen is None:
            return None
        self.is_leader = False
        return msgspec.structs.replace(self._seen, holder_identity="", lease_duration_seconds=1)

    def _expires_at(self, seen: api.LeaseSpec) -> float:
        return self._seen_at + max(float(seen.lease_duration_seconds or 0), 1.0)


class Election:
    """Runs for the Lease of this name until cancelled; then gives it up."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        terms: Terms | None = None,
        identity: str = "",
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        """Raises ValueError for terms that do not work."""
        self._client = client
        self._name = name
        self._namespace = namespace
        self._terms = terms or Terms()
        if problem := self._terms.problem():
            raise ValueError(problem)
        self._clock = clock
        self._candidate = Candidate(identity or _identity(), self._terms)
        self._acquired = asyncio.Event()
        self._stored: api.Lease | None = None

    @property
    def identity(self) -> str:
        """The name that it has in the Lease."""
        return self._candidate.identity

    def is_held(self) -> bool:
        return self._candidate.leads(self._clock())

    async def acquired(self) -> None:
        while not self.is_held():
            self._acquired.clear()
            await self._acquired.wait()

    async def run(self) -> None:
        """Acquire the Lease and renew it, whatever fails in between."""
        place = f"Lease {self._namespace}/{self._name}"
        log.info("%s runs for %s", self.identity, place)
        led = False
        try:
            while True:
                try:
                    async with asyncio.timeout(self._terms.lead_s - self._terms.retry_s):
                        await self._attempt()
                except (ApiError, TimeoutError) as error:
                    log.warning("%s could not be read or written: %s", place, str(error) or "timeout")
                if self.is_held() != led:
                    led = not led
                    log.info("%s %s %s", self.identity, "leads by" if led else "no longer leads by", place)
                if led:
                    self._acquired.set()
                await asyncio.sleep(self._candidate.wait_s(self._clock()))
        finally:
            await self._release()

    async def _attempt(self) -> None:
        candidate = self._candidate
        try:
            self._stored = await self._client.get(api.Lease, self._name, self._namespace)
        except NotFound:
            self._stored = None
        candidate.saw(self._stored.spec if self._stored is not None else None, self._clock())
        wanted = candidate.wanted(time.time(), self._clock())
        if wanted is None:
            return
        sent_at = self._clock()
        try:
            await self._write(wanted)
        except (AlreadyExists, Conflict, NotFound):
            return  # another was faster: look again
        candidate.wrote(wanted, sent_at, self._clock())

    async def _write(self, spec: api.LeaseSpec) -> None:
        if self._stored is None:
            metadata = api.ObjectMeta(name=self._name, namespace=self._namespace)
            self._stored = await self._client.create(api.Lease(metadata=metadata, spec=spec))
        else:
            self._stored = await self._client.replace(msgspec.structs.replace(self._stored, spec=spec))

    async def _release(self) -> None:
        released = self._candidate.released()
        if released is None:
            return
        try:
            async with asyncio.timeout(self._terms.retry_s):
                await self._write(released)
        except (ApiError, TimeoutError) as error:
            log.warning(
                "Lease %s/%s was not released: %s", self._namespace, self._name, str(error) or "timeout"
            )


def _identity() -> str:
    """Unique for the process; readable, since it is what an operator sees in the Lease."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _whole(seconds: float) -> int:
    """A Lease has whole seconds: rounded up, so that nobody takes over too early."""
    return max(1, -int(-seconds // 1))
