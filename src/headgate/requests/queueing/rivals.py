"""Whether requests that wait for a pool in other gateways or pickers go before those that wait here.

All of them send to the same endpoints as soon as these have capacity, and the one at which a request has
ended knows it first: it would send its own next request, whatever waits elsewhere. So a process with more
requests in flight than is fair to the flows queued in all processes lets the others go first, but not for
long: they may not be able to use the capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.fleet import EndpointState
    from headgate.flow.sharing import PoolShare

YIELD_S: Final = 0.1
"""Longest time in which capacity is left to others."""
TOLERANCE: Final = 1.1
"""A process may have this much more than what is fair, and one request in any case."""


class Rivals:
    """Requests queued in other processes for one pool."""

    __slots__ = ("_fair", "_processes", "_since", "top")

    def __init__(self) -> None:
        self.top: int | None = None
        """The highest priority queued there; None if nothing is."""
        self._fair = 1.0
        self._processes = 1
        self._since: float | None = None
        """Since when there has been capacity that was left to them."""

    def use(self, share: PoolShare) -> None:
        """Apply a share."""
        self.top = share.waiting_elsewhere
        self._fair, self._processes = share.room, share.processes
        if self.top is None:
            self._since = None

    def precede(self, priority: int, loads: Iterable[EndpointState]) -> bool:
        """Whether a new request must wait, although nothing is queued before it here."""
        top = self.top
        if top is None or priority > top:
            return False
        return _exceeds(loads, 1.0 / self._processes if priority == top else self._fair)

    def go_first(self, priority: int, loads: Iterable[EndpointState], now: float) -> bool:
        """Whether the capacity that there is now is left to them; `priority` is the highest queued here."""
        top = self.top
        if top is None or priority > top or not _exceeds(loads, self._fair):
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < YIELD_S:
            return True
        self._since = None
        return False

    def no_capacity(self) -> None:
        """There is none to leave to anybody."""
        self._since = None

    def ends_at(self, now: float) -> float:
        """When this process sends again, at the latest."""
        return (self._since if self._since is not None else now) + YIELD_S


def _exceeds(loads: Iterable[EndpointState], fair: float) -> bool:
    """Whether one more request in flight is more than the fair part of this process."""
    own = total = 1
    for load in loads:
        own += load.own_requests
        total += load.requests
    return own > max(total * fair * TOLERANCE, 1.0)
