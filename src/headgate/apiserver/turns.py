"""Fair queuing of requests: users take turns, so that a flood from one user does not delay the others.

The work of a request runs on the event loop without interruption. Each iteration of the loop starts a few
requests, one of each user in turn; the others wait in bounded queues. So a user with a single request waits
for a few others, not for everything another user has sent: the fair queuing of Kubernetes' API Priority and
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
"""Requests started in one iteration of the loop: their writes share a transaction."""
SHORT_PASS_S = 0.01
"""CPU time. After a longer iteration, the next one starts only one request, so that delays do not add up."""


class Turns:
    """Queues of waiting requests, one for each user that has any."""

    def __init__(self, max_waiting: int, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._pass_began_s = 0.0
        self._at_once = AT_ONCE
        self._shares = Shares(max_waiting)
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._ticking = False
        self._begun = 0

    async def begin(self, user: str) -> None:
        """Wait for the turn of a request, which lasts until the caller's next await.

        429 if too many requests are waiting.
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
        """Wait for the next turn of a request that has begun: other requests run in between."""
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
        """A new iteration of the loop: start the next few requests, one of each user."""
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
