"""The queue of a pool, as a request's life needs it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

WANTED_FOR_S: Final = 60.0
"""How long a pool is started for a rejected request: a client may retry."""


class WaitingForEndpoints(NamedTuple):
    """The requests for one pool without endpoints."""

    requests: int
    """Those that wait; 0 if all have left or were rejected."""
    last_at: float
    """When the last one arrived, up to a second too early, in the time of the data plane."""

    def is_wanted(self, now: float) -> bool:
        """Whether the pool is to be started: for requests that wait, or for clients that were rejected just
        now because they do not wait for as long as that takes."""
        return self.requests > 0 or now - self.last_at < WANTED_FOR_S


class Queue(Protocol):
    """Holds requests until their pool has capacity."""

    @property
    def counts_all(self) -> bool:
        """Whether it needs to know the end of every request, not only of those that were queued."""
        ...

    @property
    def waiting_for_endpoints(self) -> WaitingForEndpoints | None:
        """The requests that wait because there is no endpoint; None if none came since there was one."""
        ...

    @property
    def awaits_start(self) -> bool:
        """Whether requests start the pool, and none of its endpoints can be reached now."""
        ...

    def passes(self, priority: int, now: float) -> bool:
        """Whether a request of this priority may be sent immediately."""
        ...

    def why_wait(self, priority: int, now: float) -> str:
        """What a request that arrives now would wait for; empty if it would be sent immediately."""
        ...

    def hold(self, owner: Any, now: float) -> None:
        """Queue the request of this `Owner`, which does not pass; or refuse it if the queue is full."""

    def responded(self, life: Any) -> None:
        """The response head of a request that was queued arrived; `life` is its `Life`."""

    def settled(self, life: Any, now: float) -> None:
        """A request of the pool is over; if its `Life` is still queued, the client has left."""

    def room_made(self) -> None:
        """Capacity was released by a request of the pool."""

    def refresh_endpoints(self, now: float) -> None:
        """An endpoint of the pool may have failed or recovered."""
