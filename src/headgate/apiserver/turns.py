"""Whose request is worked on next: users take turns, so that one user's flood does not delay the others.

The work of a request runs on the event loop without a break. Each pass of the loop begins a few requests, one
of each user in turn; the others wait in bounded queues. So a user with a single request waits for a few
others, not for everything that somebody else has sent: the fair queuing of Kubernetes' API Priority and
Fairness, with the event loop as its seats.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from headgate.apiserver import errors
from headgate.apiserver.shares import Shares

AT_ONCE = 4
"""Requests that begin in one pass of the loop: writes of one pass share a transaction."""
SHORT_PASS_S = 0.01
"""Of CPU time. After a longer pass only one request begins in the next, so that passes do not add up."""


class Turns:
    """Owner of the queues of requests, one for each user who has some waiting."""

    def __init__(self, max_waiting: int, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._pass_began_s = 0.0
        self._at_once = AT_ONCE
        self._shares = Shares(max_waiting)
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._ticking = False
        self._begun = 0

    async def begin(self, user: str) -> None:
        """Waits for the turn of a request; what follows, up to the next await, is worked on in it.

        429 if too many requests wait already.
        """
        self._tick_later()
        if self._begun < self._at_once and not self._waiting:
            self._begun += 1
            return
        if not self._shares.take(user):
            waiting = self._shares.held(user)
            raise errors.too_many_requests(
                f'{waiting} requests of user "{user}" are waiting, which is as many as may: try again later'
            )
        try:
            await self._wait(user)
        finally:
            self._shares.give_back(user)

    async def resume(self, user: str) -> None:
        """Waits for the next turn of a request that has begun: others come in between."""
        self._tick_later()
        await self._wait(user)

    async def _wait(self, user: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        await turn

    def _tick_later(self) -> None:
        if not self._ticking:
            self._ticking, self._begun = True, 0
            self._at_once, self._pass_began_s = AT_ONCE, self._clock()
            asyncio.get_running_loop().call_soon(self._tick)

    @property
    def most(self) -> int:
        """How many requests of all users together may wait to begin."""
        return self._shares.total

    def statistics(self) -> dict[str, int]:
        return {"waiting": sum(map(len, self._waiting.values())), "most": self.most}

    def by_user(self) -> dict[str, int]:
        """How many requests of each user wait."""
        return {user: len(queue) for user, queue in self._waiting.items()}

    def _tick(self) -> None:
        """A new pass of the loop: the next few requests, one of each user."""
        now_s = self._clock()
        self._at_once = AT_ONCE if now_s - self._pass_began_s < SHORT_PASS_S else 1
        self._begun, self._pass_began_s = 0, now_s
        while self._waiting and self._begun < self._at_once:
            user, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(user)
            else:
                del self._waiting[user]
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        self._ticking = bool(self._begun)
        if self._ticking:
            asyncio.get_running_loop().call_soon(self._tick)
