"""What a request's life needs of the queue of its pool."""

from __future__ import annotations

from typing import Any, Protocol


class Queue(Protocol):
    """Where requests wait until their pool has room for them."""

    @property
    def counts_all(self) -> bool:
        """Whether it is told of the end of every request, and not only of those that waited."""
        ...

    def passes(self, priority: int, now: float) -> bool:
        """Whether a request of this priority may go at once."""
        ...

    def why_wait(self, priority: int, now: float) -> str:
        """What a request that comes now would wait for; empty if it would go at once."""
        ...

    def hold(self, owner: Any, now: float) -> None:
        """Takes a request that does not pass, of this `Owner`; or refuses it, if it has no place for it."""

    def answered(self, life: Any) -> None:
        """The head of an answer is here to the `Life` of a request that waited."""

    def settled(self, life: Any, now: float) -> None:
        """The `Life` of a request of the pool is over; if it still waits, its client has gone."""

    def room_made(self) -> None:
        """Something of a request of the pool has ended."""

    def refresh_endpoints(self, now: float) -> None:
        """An endpoint of the pool may have failed, or come back."""
