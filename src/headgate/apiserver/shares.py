"""Fair sharing of limited resources, so that no user can take all of them.

A user may hold as much as is still free. So one user alone can hold half, two a third each, and there is
always something left for the next one: the "dynamic threshold" of Choudhury and Hahne (1998), which needs no
list of users and no configured shares. A quarter is reserved for the administrator, whose token the gateway,
the controllers and the node use.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from headgate.apiserver.users import ADMIN

RESERVED = 4
"""One part in this many is reserved for the administrator."""


class Shares:
    """One limited resource: slots, connections or bytes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._pool = total - total // RESERVED
        self._held: dict[str, int] = {}
        self._sum = 0
        self._waiting: OrderedDict[str, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()

    def take(self, user: str, amount: int = 1) -> bool:
        """Take an amount for a user, unless it exceeds their share."""
        if not self._fits(user, amount):
            return False
        self._add(user, amount)
        return True

    async def wait(self, user: str, amount: int) -> None:
        """Take an amount as soon as the user's share allows; waiting users take turns."""
        if user not in self._waiting and self.take(user, amount):
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append((amount, ready))
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self.give_back(user, amount)
            else:
                self._forget(user, (amount, ready))
            raise

    def give_back(self, user: str, amount: int = 1) -> None:
        self._add(user, -amount)
        if self._waiting:
            self._serve()

    def held(self, user: str) -> int:
        return self._held.get(user, 0)

    def statistics(self) -> dict[str, int]:
        return {"total": self.total, "held": self._sum, "waiting": sum(map(len, self._waiting.values()))}

    def by_user(self) -> dict[str, int]:
        """The amount that each user holds."""
        return dict(self._held)

    def validate(self) -> None:
        """Check that the sums are correct; for tests."""
        assert sum(self._held.values()) == self._sum <= self.total
        assert all(amount > 0 for amount in self._held.values())

    def _fits(self, user: str, amount: int) -> bool:
        if self._sum + amount > self.total:
            return False
        if user == ADMIN:
            return True
        # What the administrator holds beyond the reserve reduces the others' part.
        own = self._held.get(ADMIN, 0)
        free = self._pool - (self._sum - own) - max(0, own - (self.total - self._pool))
        return self.held(user) + amount <= free

    def _add(self, user: str, amount: int) -> None:
        self._sum += amount
        if left := self.held(user) + amount:
            self._held[user] = left
        else:
            self._held.pop(user, None)

    def _forget(self, user: str, waiting: tuple[int, asyncio.Future[None]]) -> None:
        """Remove a request that no longer waits."""
        if (queue := self._waiting.get(user)) and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._waiting[user]

    def _serve(self) -> None:
        """Serve waiting requests as far as shares allow, one of each user at a time."""
        served = True
        while served:
            served = False
            for user in list(self._waiting):
                queue = self._waiting[user]
                while queue and queue[0][1].done():  # it was cancelled
                    queue.popleft()
                if queue and self.take(user, queue[0][0]):
                    queue.popleft()[1].set_result(None)
                    served = True
                    self._waiting.move_to_end(user)
                if not queue:
                    del self._waiting[user]


class Room:
    """The bytes that one request holds of a limit; everything is released when it is closed."""

    def __init__(self, shares: Shares, user: str) -> None:
        self._shares = shares
        self._user = user
        self._held = 0
        self._closed = False

    async def enter(self, size: int) -> int:
        """Wait for this many bytes; returns the amount to pass to `leave`."""
        size = min(size, self._shares.total // RESERVED)  # a single part always fits
        await self._shares.wait(self._user, size)
        self._held += size
        return size

    def grow(self, size: int) -> bool:
        """Take bytes immediately; False if the share does not allow it."""
        if not self._shares.take(self._user, size):
            return False
        self._held += size
        return True

    def leave(self, size: int) -> None:
        if not self._closed:
            self._held -= size
            self._shares.give_back(self._user, size)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._held:
                self._shares.give_back(self._user, self._held)
