"""A worker as its supervisor sees it: a process, the channel to it, and its last reports."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from headgate.gateway.settings import GatewaySettings
from headgate.telemetry.sums import Family
from headgate.workers import channel as wire
from headgate.workers import messages
from headgate.workers.accounts import Accounts
from headgate.workers.shared_queues import SharedQueues

CLOSED_S = 60.0
"""How long a worker may run after it has closed its channel, or drains because it found the channel
broken."""
MAX_UNANSWERED = 8
"""A worker with this many outstanding responses gets no further queries."""

COMMAND = (sys.executable, "-P", "-m", "headgate.cli.gateway.worker")
"""With -P, a file in the working directory is never imported as a module."""

log = logging.getLogger(__name__)

_Answer: TypeAlias = "asyncio.Future[messages.Answered | messages.Counted]"
_ids = itertools.count(1)


class NoAnswer(Exception):  # noqa: N818 - reads as what it says
    """The worker is gone, or too busy."""


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


class WorkerProcess:
    """One worker process, from its start or adoption to its end."""

    def __init__(
        self, pid: int, slot: int, sock: socket.socket, started: float, listeners: Collection[int]
    ) -> None:
        self.pid = pid
        self.slot = slot
        self.started = started
        """Seconds since the epoch."""
        self.listeners = frozenset(listeners)
        """Descriptors of the listening sockets that it inherited."""
        self.is_retiring = False
        self.ready = asyncio.Event()
        self.connected = asyncio.Event()
        """Set once it can receive orders."""
        self.ended = asyncio.Event()
        self.leaving = asyncio.Event()
        """Set when it received SIGTERM."""
        self.hushed = asyncio.Event()
        self.heard_at = time.monotonic()
        self.failure = ""
        self.status: int | None = None
        """From waitpid."""
        self.families: list[Family] = []
        """Its metrics, as last reported."""
        self.accounts: Accounts | None = None
        """The accounts for its claims; workers of an earlier version send no claims."""
        self.queues: SharedQueues | None = None
        """The queues shared by all workers."""
        self._serves: list[int] | None = None
        # Open all descriptors now, while those of the reserve are free. Raises OSError.
        self._pidfd = os.pidfd_open(pid)
        try:
            self._sock, self._ours = sock, sock.dup()
        except OSError:
            os.close(self._pidfd)
            raise
        self._channel: wire.Channel[messages.Report, messages.Order] | None = None
        self._answers: dict[int, _Answer] = {}
        self._unsent: list[messages.Order] = []
        """Orders from before the channel was open."""

    @classmethod
    def start(
        cls, slot: int, workers: int, settings: GatewaySettings, listeners: Collection[int]
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
                worker = cls(pid, slot, ours, time.time(), listeners)
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
        )
        worker.tell(begin)
        return worker

    @classmethod
    def adopt(cls, adopted: Adopted) -> WorkerProcess:
        sock = socket.socket(fileno=adopted.channel)
        sock.set_inheritable(False)
        worker = cls(adopted.pid, adopted.slot, sock, adopted.started, adopted.listeners)
        worker.families = adopted.families
        worker.is_retiring = adopted.is_retiring
        worker.ready.set()
        return worker

    def handed_over(self) -> Adopted:
        """For the supervisor that this process is about to become."""
        channel = os.dup(self._sock.fileno())
        os.set_inheritable(channel, True)
        return Adopted(
            pid=self.pid,
            channel=channel,
            slot=self.slot,
            started=self.started,
            is_retiring=self.is_retiring,
            listeners=sorted(self.listeners),
            families=self.families,
        )

    async def run(self, freed: Callable[[], None] = lambda: None) -> None:
        """Read its reports until it has ended and all of them are read.

        `freed` is called whenever descriptors were closed.
        """
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self._pidfd, gone.set)
        try:
            self._channel = await wire.to_worker(self._ours)
            for order in self._unsent:
                self._channel.send(order)
            self._unsent.clear()
            self.connected.set()
            try:
                while True:
                    self._hear(await self._channel.receive())
            except wire.Closed:
                # It ends when it finds the channel closed, unless it is stuck.
                self._channel.close()
                self._sock.close()
                freed()
            try:
                async with asyncio.timeout(CLOSED_S):
                    await gone.wait()
            except TimeoutError:
                log.warning(
                    "worker %d (%d) closed its channel but does not end, and is killed", self.slot, self.pid
                )
                self.kill()
                await gone.wait()
            _, self.status = os.waitpid(self.pid, 0)  # noqa: ASYNC222 - it has ended
        finally:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._sock.close()
            if self._channel is not None:
                self._channel.close()
            for future in self._answers.values():
                future.cancel()
            self.ended.set()
            freed()

    def _hear(self, report: messages.Report) -> None:
        self.heard_at = time.monotonic()
        match report:
            case messages.Ready():
                self.ready.set()
            case messages.Failed(message):
                self.failure = message
            case messages.Leaving():
                self.leaving.set()
            case messages.Hushed():
                self.hushed.set()
            case messages.Counted(number, families):
                self.families = families
                self._answered(number, report)
            case messages.Answered(number):
                self._answered(number, report)
            case messages.Claims(number, claims):
                if self.accounts is not None:
                    self.tell(messages.Grants(number, self.accounts.claim(claims, self.heard_at)))
            case messages.Waiting(pools, gone):
                if self.queues is not None:
                    self.queues.hear(self, pools, gone)

    def _answered(self, number: int, report: messages.Answered | messages.Counted) -> None:
        future = self._answers.pop(number, None)
        if future is not None and not future.done():
            future.set_result(report)

    def tell(self, order: messages.Order) -> bool:
        """Send an order; return whether it was sent, or will be once there is a channel."""
        if self._channel is None:
            self._unsent.append(order)
            return True
        return self._channel.send(order)

    def serve(self, listeners: list[int]) -> None:
        """Order it to accept on these listening sockets, unless it does already."""
        if self._serves != listeners and self.tell(messages.Serve(listeners)):
            self._serves = listeners

    def retire(self, limit_s: float) -> None:
        """Order it to retire, as another worker has replaced it."""
        self.is_retiring = True
        self.tell(messages.Retire(limit_s))

    @property
    def state(self) -> str:
        if self.is_retiring:
            return "retiring"
        return "ready" if self.ready.is_set() else "starting"

    async def ask(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes,
        limit_s: float,
        headers: Sequence[tuple[str, str]] = (),
    ) -> messages.Answered:
        """Send a request to its debug pages. Raises NoAnswer."""
        ask = messages.Ask(next(_ids), method, path, query, body, list(headers))
        answered = await self._request(ask, limit_s)
        assert isinstance(answered, messages.Answered)
        return answered

    async def count(self, limit_s: float) -> None:
        """Update `families`. Raises NoAnswer."""
        await self._request(messages.Count(next(_ids)), limit_s)

    async def _request(
        self, order: messages.Ask | messages.Count, limit_s: float
    ) -> messages.Answered | messages.Counted:
        if len(self._answers) >= MAX_UNANSWERED or not self.tell(order):
            raise NoAnswer(f"worker {self.slot} is too busy")
        future: _Answer = asyncio.get_running_loop().create_future()
        self._answers[order.id] = future
        await asyncio.wait({future}, timeout=limit_s)
        if not future.done():  # still outstanding: counts against the worker until it arrives
            raise NoAnswer(f"worker {self.slot} did not respond within {limit_s:g} s")
        if future.cancelled():
            raise NoAnswer(f"worker {self.slot} has ended")
        return future.result()

    def kill(self) -> None:
        if not self.ended.is_set():
            os.kill(self.pid, signal.SIGKILL)

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "has not ended"
        if os.WIFSIGNALED(self.status):
            return f"was ended by {signal.Signals(os.WTERMSIG(self.status)).name}"
        return f"ended with {os.waitstatus_to_exitcode(self.status)}"
