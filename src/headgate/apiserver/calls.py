"""One request of one user: its turn, and what it holds of the shared limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from headgate.apiserver import errors
from headgate.apiserver.shares import Room, Shares
from headgate.apiserver.turns import Turns

T = TypeVar("T")

CLAIM_BYTES = 16 * 1024
"""Smaller responses are not counted: the number of connections bounds them."""
_LEFT = "the client disconnected while its request waited for its turn"
MAX_JUDGEMENTS = 64
"""Writes waiting for the process that evaluates user-defined rules. Each holds its decoded body."""


class Shared:
    """The limits shared by all users of a server, and the counters of rejected requests."""

    def __init__(
        self,
        *,
        connections: int,
        watches: int,
        log_streams: int,
        waiting: int,
        body_bytes: int,
        unread_bytes: int,
    ) -> None:
        self.turns = Turns(waiting)
        self.connections = Shares(connections)
        """Connections of authenticated users."""
        self.watches = Shares(watches)
        self.bodies = Shares(body_bytes)
        """Request bodies, until their response is sent."""
        self.unread = Shares(unread_bytes)
        """Lists, objects and events that clients have requested but not read yet."""
        self.logs = Shares(log_streams)
        self.threads = Shares(1)
        """Slow work in a thread: a second thread would compete with the event loop without being faster."""
        self.judge = Shares(1)
        """The process that validates objects."""
        self.judgements = Shares(MAX_JUDGEMENTS)
        self.helper = Shares(1)
        """The process that computes large writes."""
        self.rejected: Counter[str] = Counter()
        """Rejected requests by the shared limit, and closed connections, by reason."""
        self.errors: Counter[int] = Counter()
        """Error responses and failed watches, by status (400 and up)."""

    def shares(self) -> dict[str, Shares]:
        """The shared limits by name."""
        return {
            "connections": self.connections,
            "watches": self.watches,
            "logs": self.logs,
            "body_bytes": self.bodies,
            "unread_bytes": self.unread,
            "judgements": self.judgements,
        }

    def statistics(self) -> dict[str, dict[str, int]]:
        """Amounts held and waiting requests of each limit; rejections by reason."""
        held = {name: share.statistics() for name, share in self.shares().items()}
        return {**held, "turns": self.turns.statistics(), "rejected": dict(self.rejected)}


class Connection(Protocol):
    """The part of a request's connection that its call uses."""

    is_lost: bool
    on_lost: Callable[[], object] | None


class Call:
    """Tracks what a request holds; everything is released when the request ends."""

    def __init__(self, shared: Shared, user: str, connection: Connection | None = None) -> None:
        self.user = user
        self._connection = connection
        self.unread = Room(shared.unread, user)
        self._bodies = Room(shared.bodies, user)
        self._watches = Room(shared.watches, user)
        self._logs = Room(shared.logs, user)
        self._judgements = Room(shared.judgements, user)
        self._shared = shared

    async def turn(self) -> None:
        """Wait until this user's requests are next; 429 if too many are waiting."""
        try:
            await self._shared.turns.begin(self.user)
        except errors.StatusError:
            self._shared.rejected["requests"] += 1
            raise

    async def next_turn(self) -> None:
        """Let other requests run before continuing."""
        await self._shared.turns.resume(self.user)

    def hold_body(self, size: int) -> None:
        """Count received bytes of the body; 429 if this user has too many in progress."""
        if not self._bodies.grow(size):
            raise self._refusal("bodies", "bodies of requests", self._shared.bodies)

    def hold_response(self, size: int) -> None:
        """Count a response to be sent; 429 if this user leaves too much unread."""
        if not self.unread.grow(size):
            raise self._refusal("unread", "responses that were not read", self._shared.unread)

    def watch(self) -> None:
        """Take a slot for a watch; 429 if this user has no more."""
        if not self._watches.grow(1):
            raise self._refusal("watches", "watches", self._shared.watches)

    def watch_ended(self, error: errors.StatusError) -> None:
        """Count a watch that ended with an error, because its response was 200."""
        self._shared.errors[error.code] += 1

    def log(self) -> None:
        """Take a slot for reading a log; 429 if this user has no more."""
        if not self._logs.grow(1):
            raise self._refusal("logs", "logs", self._shared.logs)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run slow work in a thread, one at a time, users taking turns."""
        await self._wait_for(self._shared.threads)
        try:
            return await asyncio.to_thread(work)
        finally:
            self._shared.threads.give_back(self.user)

    async def judged(self, answer: Callable[[], Awaitable[T]]) -> T:
        """Use the validating process, users taking turns; 429 if too many of this user's writes wait."""
        if not self._judgements.grow(1):
            raise self._refusal("judgements", "places of writes to be judged", self._shared.judgements)
        try:
            await self._wait_for(self._shared.judge)
            try:
                return await answer()
            finally:
                self._shared.judge.give_back(self.user)
        finally:
            self._judgements.leave(1)

    async def computed(self, compute: Callable[[], Awaitable[T]]) -> T:
        """Use the process that computes large writes, users taking turns."""
        await self._wait_for(self._shared.helper)
        try:
            return await compute()
        finally:
            self._shared.helper.give_back(self.user)

    async def _wait_for(self, worker: Shares) -> None:
        """Wait until the single worker is free for this user; gives up when the client disconnects."""
        connection, task = self._connection, asyncio.current_task()
        if connection is None or task is None:
            await worker.wait(self.user, 1)
            return
        if self._has_left():
            raise errors.unavailable(_LEFT)
        connection.on_lost = task.cancel
        try:
            await worker.wait(self.user, 1)
        except asyncio.CancelledError:
            if not self._has_left() or task.uncancel():
                raise
            raise errors.unavailable(_LEFT) from None
        finally:
            connection.on_lost = None

    def _has_left(self) -> bool:
        return self._connection is not None and self._connection.is_lost

    def close(self) -> None:
        for room in (self.unread, self._bodies, self._watches, self._logs, self._judgements):
            room.close()

    def _refusal(self, reason: str, what: str, shares: Shares) -> errors.StatusError:
        self._shared.rejected[reason] += 1
        unit = " bytes of" if reason in ("bodies", "unread") else ""
        told = f'user "{self.user}" holds {shares.held(self.user)}{unit} {what}, which is as many as one may'
        return errors.too_many_requests(told)
