"""A worker as its supervisor sees it: a process, the connection to it, and its last reports."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from headgate.gateway.settings import GatewaySettings
from headgate.telemetry.sums import Family
from headgate.workers import channel as wire
from headgate.workers import messages
from headgate.workers.accounts import Accounts
from headgate.workers.child_process import ChildProcess
from headgate.workers.connection import Connection
from headgate.workers.pulse import Pulse
from headgate.workers.shared_queues import SharedQueues

CLOSED_S = 60.0
"""How long a worker may run after it has closed its channel, or drains because it found the channel
broken."""

COMMAND = (sys.executable, "-P", "-m", "headgate.cli.gateway.worker")
"""With -P, a file in the working directory is never imported as a module."""

log = logging.getLogger(__name__)


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """A worker started by this process when it ran another version of the supervisor."""

    pid: int
    channel: int
    """Descriptor of the supervisor's end."""
    slot: int
    started: float
    is_retiring: bool
    listeners: list[int]
    families: list[Family]
    has_objects: bool = False


class Shared(NamedTuple):
    """What all workers have in common."""

    accounts: Accounts
    queues: SharedQueues
    starved: Pulse
    """Beats whenever requests begin to wait for a pool without endpoints."""


class Reports:
    """What a worker has reported so far."""

    def __init__(self, families: list[Family] | None = None) -> None:
        self.ready = asyncio.Event()
        """Set once it can route requests."""
        self.leaving = asyncio.Event()
        """Set when it received SIGTERM."""
        self.hushed = asyncio.Event()
        """Set once it sends nothing until the next order."""
        self.failure = ""
        """Why it cannot start."""
        self.families = families or []
        """Its metrics, as last reported."""
        self.heard_at = time.monotonic()
        """When the last report arrived."""


class WorkerProcess:
    """One worker, from its start or adoption to its end."""

    def __init__(
        self,
        pid: int,
        slot: int,
        sock: socket.socket,
        started: float,
        listeners: Collection[int],
        families: list[Family] | None = None,
        *,
        has_objects: bool = False,
    ) -> None:
        """Raises OSError."""
        self.slot = slot
        self.started = started
        """Seconds since the epoch."""
        self.listeners = frozenset(listeners)
        """Descriptors of the listening sockets that it inherited."""
        self.is_retiring = False
        self.has_objects = has_objects
        """Whether it gets its objects from the supervisor, and not from an API server."""
        self.reports = Reports(families)
        # Open all descriptors now, while those of the reserve are free.
        self.process = ChildProcess(pid)
        try:
            self.connection = Connection(slot, sock)
        except OSError:
            self.process.release()
            raise
        self._serves: list[int] | None = None
        """The listening sockets that it was ordered to accept on."""

    @classmethod
    def start(
        cls,
        slot: int,
        workers: int,
        settings: GatewaySettings,
        listeners: Collection[int],
        *,
        has_objects: bool = False,
    ) -> WorkerProcess:
        """Start a process that inherits the listening sockets but does not accept on them yet. Raises
        OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            argv = [*COMMAND, str(theirs.fileno())]
            null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            pid = 0
            try:
                # A session of its own: Ctrl-C is meant for the supervisor, which ends all workers in order.
                pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[null], setsid=True)
                worker = cls(pid, slot, ours, time.time(), listeners, has_objects=has_objects)
            except OSError:
                ours.close()
                if pid:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                raise
        is_one_of_many = workers > 1
        begin = messages.Begin(
            slot,
            workers,
            messages.written(settings),
            list(listeners),
            keeps_accounts=is_one_of_many,
            shares_queues=is_one_of_many,
            hears_starved=True,
            has_objects=has_objects,
        )
        worker.tell(begin)
        return worker

    @classmethod
    def adopt(cls, adopted: Adopted) -> WorkerProcess:
        sock = socket.socket(fileno=adopted.channel)
        sock.set_inheritable(False)
        worker = cls(
            adopted.pid,
            adopted.slot,
            sock,
            adopted.started,
            adopted.listeners,
            adopted.families,
            has_objects=adopted.has_objects,
        )
        worker.is_retiring = adopted.is_retiring
        worker.reports.ready.set()
        return worker

    def handed_over(self) -> Adopted:
        """For the supervisor that this process is about to become."""
        return Adopted(
            pid=self.pid,
            channel=self.connection.inheritable(),
            slot=self.slot,
            started=self.started,
            is_retiring=self.is_retiring,
            listeners=sorted(self.listeners),
            families=self.reports.families,
            has_objects=self.has_objects,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    async def run(self, shared: Shared, freed: Callable[[], None]) -> None:
        """Read its reports until it has ended and all of them are read. `freed` is called whenever
        descriptors were closed."""
        try:
            channel = await self.connection.open()
            try:
                while True:
                    self._hear(await channel.receive(), shared)
            except wire.Closed:
                # It ends when it finds the channel closed, unless it is stuck.
                self.connection.close()
                freed()
            if not await self.process.wait(CLOSED_S):
                log.warning(
                    "worker %d (%d) closed its channel but does not end, and is killed", self.slot, self.pid
                )
                self.process.kill()
                await self.process.wait()
        finally:
            self.connection.close()
            self.connection.end_queries()
            self.process.release()
            freed()

    def _hear(self, report: messages.Report, shared: Shared) -> None:
        reports = self.reports
        reports.heard_at = time.monotonic()
        match report:
            case messages.Ready():
                reports.ready.set()
            case messages.Failed(message):
                reports.failure = message
            case messages.Leaving():
                reports.leaving.set()
            case messages.Hushed():
                reports.hushed.set()
            case messages.Counted(number, families):
                reports.families = families
                self.connection.answered(number, report)
            case messages.Answered(number):
                self.connection.answered(number, report)
            case messages.Claims(number, claims):
                self.tell(messages.Grants(number, shared.accounts.claim(claims, reports.heard_at)))
            case messages.Waiting(pools, gone):
                shared.queues.hear(self, pools, gone)
            case messages.Starved():
                shared.starved.beat()

    def tell(self, order: messages.Order) -> bool:
        """Send an order; return whether it was sent, or will be once there is a channel."""
        return self.connection.tell(order)

    def serve(self, listeners: list[int]) -> None:
        """Order it to accept on these listening sockets, unless it does already."""
        if self._serves != listeners and self.tell(messages.Serve(listeners)):
            self._serves = listeners

    def change(self, settings: dict[str, Any]) -> bool:
        """Order it to apply settings, as `messages.written`; return whether the order was sent."""
        # With a shorter `workers.hang_s`, it would seem to hang, as it reported less often so far.
        self.reports.heard_at = time.monotonic()
        return self.tell(messages.Change(settings))

    def retire(self, limit_s: float) -> None:
        """Order it to retire, as another worker has replaced it."""
        self.is_retiring = True
        self.tell(messages.Retire(limit_s))

    @property
    def state(self) -> str:
        if self.is_retiring:
            return "retiring"
        return "ready" if self.reports.ready.is_set() else "starting"
