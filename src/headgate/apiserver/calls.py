"""One request of one user: its turn, and what it may hold of what the users share."""

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
"""Writes that wait for the process that judges objects by the rules of users. Each holds its body decoded."""


class Shared:
    """Owner of what all users share of one server, and of the counts of what was refused."""

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
        """Those on which a token was shown."""
        self.watches = Shares(watches)
        self.bodies = Shares(body_bytes)
        """Bodies of requests, until they are answered."""
        self.unread = Shares(unread_bytes)
        """Lists, objects and events that clients have asked for and not taken yet."""
        self.logs = Shares(log_streams)
        self.threads = Shares(1)
        """Slow work in a thread: a second thread would compete with the event loop and not be faster."""
        self.judge = Shares(1)
        """The process that judges objects."""
        self.judgements = Shares(MAX_JUDGEMENTS)
        self.helper = Shares(1)
        """The process that computes large writes."""
        self.rejected: Counter[str] = Counter()
        """By reason: what users share, and connections that were ended."""
        self.errors: Counter[int] = Counter()
        """Responses and ends of watches, by their status from 400 on."""

    def shares(self) -> dict[str, Shares]:
        """What users share, by name."""
        return {
            "connections": self.connections,
            "watches": self.watches,
            "logs": self.logs,
            "body_bytes": self.bodies,
            "unread_bytes": self.unread,
            "judgements": self.judgements,
        }

    def statistics(self) -> dict[str, dict[str, int]]:
        """What is held and by how many it is waited for; what was refused, by reason."""
        held = {name: share.statistics() for name, share in self.shares().items()}
        return {**held, "turns": self.turns.statistics(), "rejected": dict(self.rejected)}


class Connection(Protocol):
    """The connection of a request, as far as its call has to know it."""

    is_lost: bool
    on_lost: Callable[[], object] | None


class Call:
    """Owner of what a request holds; all of it goes back when the request is over."""

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
        """Waits until this user's requests are next; 429 if too many of them wait."""
        try:
            await self._shared.turns.begin(self.user)
        except errors.StatusError:
            self._shared.rejected["requests"] += 1
            raise

    async def next_turn(self) -> None:
        """Lets others have their turn before the work goes on."""
        await self._shared.turns.resume(self.user)

    def hold_body(self, size: int) -> None:
        """Counts what arrived of the body; 429 if this user has too much under way."""
        if not self._bodies.grow(size):
            raise self._refusal("bodies", "bodies of requests", self._shared.bodies)

    def hold_response(self, size: int) -> None:
        """Counts a response that is to be sent; 429 if this user leaves too much unread."""
        if not self.unread.grow(size):
            raise self._refusal("unread", "responses that were not read", self._shared.unread)

    def watch(self) -> None:
        """Takes a slot for a watch; 429 if this user has as many as he may."""
        if not self._watches.grow(1):
            raise self._refusal("watches", "watches", self._shared.watches)

    def watch_ended(self, error: errors.StatusError) -> None:
        """Counts a watch that ends with an error, as the response was 200."""
        self._shared.errors[error.code] += 1

    def log(self) -> None:
        """Takes a slot for reading a log; 429 if this user has as many as he may."""
        if not self._logs.grow(1):
            raise self._refusal("logs", "logs", self._shared.logs)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Does slow work beside the event loop, one at a time, the users in turn."""
        await self._wait_for(self._shared.threads)
        try:
            return await asyncio.to_thread(work)
        finally:
            self._shared.threads.give_back(self.user)

    async def judged(self, answer: Callable[[], Awaitable[T]]) -> T:
        """Awaits the process that judges objects, the users in turn; 429 if too many of this user wait."""
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
        """Awaits the process that computes large writes, the users in turn."""
        await self._wait_for(self._shared.helper)
        try:
            return await compute()
        finally:
            self._shared.helper.give_back(self.user)

    async def _wait_for(self, worker: Shares) -> None:
        """Waits until the one worker is this user's; gives up when the client disconnects."""
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
