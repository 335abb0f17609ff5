"""The exchange of one process with all others: a timer reports, connections bring reports of others."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from headgate.fleet import sharing
from headgate.fleet.prefix import hashing
from headgate.peers import wire
from headgate.peers.link import Link
from headgate.peers.listener import Listener
from headgate.peers.settings import ConfigurationError, Secret, Settings, is_loopback, split

if TYPE_CHECKING:
    from headgate.fleet import Ledger
    from headgate.fleet.prefix import PrefixIndex

_PROBE = b"headgate peers"


class Queues(Protocol):
    """The queues of this process."""

    def changed(self) -> None:
        """Other members have less work than before, or more."""

    def report(self, now: float, *, is_heard: bool) -> bytes:
        """What to report of the queues; empty if nothing. `is_heard`: whether any member is connected."""
        ...

    def hear(self, member: str, data: bytes, now: float) -> None:
        """What a member reports of its queues; empty if nothing. Raises ValueError."""

    def forget(self, member: str, now: float) -> None:
        """A member is gone."""


class Peers:
    """Reports while any other member is connected; before that, requests cost nothing more than without
    it."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        prefixes: PrefixIndex,
        clock: Callable[[], float],
        rng: random.Random,
        queues: Queues,
    ) -> None:
        """Makes this process hash prompts like the others, so it comes before the first request. Raises
        ConfigurationError."""
        self.settings = settings
        self.members = sharing.Members(ledger, prefixes)
        self.links: dict[str, Link] = {}
        self.port = 0
        self.is_over = False
        """Set to end `run`."""
        secret = Secret.of(settings)
        for address in settings.addresses:
            split(address)
        hashing.share(secret.key)
        hashes = hashing.hashes(_PROBE * hashing.BLOCK_BYTES, 0)[-1]
        self.own = wire.Identity(os.urandom(8).hex(), secret.key, secret.is_local, hashes)
        self._prefixes = prefixes
        self._journal = sharing.Journal()
        self._reporter = sharing.Reporter(ledger, self._journal)
        self._clock = clock
        self._rng = rng
        self._queues = queues
        self._running: dict[str, asyncio.Task[None]] = {}
        self.listener = Listener(self.own, self._hear, self._leave)

    async def start(self) -> None:
        """Listen, and connect to the listed processes. Raises OSError."""
        settings = self.settings
        try:
            self.port = await self.listener.listen(settings.host, settings.port)
        except OSError as error:
            told = (
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
                "choose another peers.port"
            )
            raise OSError(error.errno, told) from error
        self._connect(settings.addresses)

    @property
    def address(self) -> str:
        """Where others reach this process. Raises ConfigurationError if nobody could."""
        host = self.settings.advertise or self.settings.host
        if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
            raise ConfigurationError(
                f"peers.host is {host}, which others cannot connect to: set peers.advertise, to the IP of "
                "the Pod for example"
            )
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def found(self, addresses: Iterable[str]) -> None:
        """These processes have Leases, besides those that are listed."""
        allowed = []
        for address in addresses:
            try:
                host, _ = split(address)
            except ConfigurationError:
                continue
            if not self.own.is_local or is_loopback(host):
                allowed.append(address)
        self._connect([*self.settings.addresses, *allowed][: sharing.MAX_MEMBERS])

    def _connect(self, addresses: Iterable[str]) -> None:
        wanted = set(addresses)
        for address in self.links.keys() - wanted:
            self._running.pop(address).cancel()
            del self.links[address]
        for address in wanted - self.links.keys():
            link = Link(address, self.own, self._join, self._rng)
            self.links[address] = link
            self._running[address] = asyncio.ensure_future(link.run())

    async def run(self) -> None:
        """Report once a period, until cancelled or over; then close all connections."""
        try:
            while not self.is_over:
                await asyncio.sleep(self.settings.period_s)
                self.report()
        finally:
            self._connect(())
            self._prefixes.journal = None
            await self.listener.close()
            self.port = 0
            now = self._clock()
            for member in self.members.heard_s(now):
                self._queues.forget(str(member), now)
            self.members.forget_all(now)

    def report(self) -> None:
        """Send what has changed to all connected members, and forget those that are silent."""
        now = self._clock()
        for member in self.members.expire(now):
            self._queues.forget(str(member), now)
        connected = [link for link in self.links.values() if link.is_up]
        queues = self._queues.report(now, is_heard=bool(connected))
        if not connected:
            self._prefixes.journal = None
            return
        self._prefixes.journal = self._journal
        report = self._reporter.changes(now, queues)
        if report is not None:
            data = sharing.encode(report)
            for link in connected:
                link.send(data)

    def _join(self, link: Link) -> None:
        self._prefixes.journal = self._journal
        link.send(sharing.encode(self._reporter.whole(self._clock())))

    def _hear(self, member: str, report: sharing.Report, same_hashes: bool) -> None:
        now = self._clock()
        self.members.hear(member, report, now, same_hashes=same_hashes)
        self._queues.hear(member, report.queues, now)
        if report.loads:
            self._queues.changed()

    def _leave(self, member: str) -> None:
        now = self._clock()
        self.members.forget(member, now)
        self._queues.forget(member, now)
        self._queues.changed()

    def use(self) -> None:
        """A new snapshot is in use: endpoints may have become known."""
        self.members.refresh(self._clock())

    def statistics(self) -> dict[str, int]:
        links = self.links.values()
        return {
            "connected": sum(link.is_up for link in links),
            "sent": sum(link.sent for link in links),
            "dropped": sum(link.dropped for link in links) + self._journal.dropped,
            "received": self.listener.received,
            "refused": self.listener.refused,
            **self.members.statistics(),
        }
