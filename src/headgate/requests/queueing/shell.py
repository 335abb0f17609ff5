"""Interfaces that a queue needs of its shell: an alarm, the hints of requests, and an observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.hints import QueueHints
    from headgate.requests.wait import Wait


class Alarm(Protocol):
    """Calls the queue's `look` with the time, after `wake` or at a set time."""

    def wake(self) -> None:
        """Wake soon, and once, no matter how often this is called before."""

    def wake_at(self, at: float, now: float) -> None:
        """Wake at this time, unless woken earlier; infinity means never."""

    def stop(self) -> None:
        """Cancel the alarm: the queue is looking already, or has nothing to look for."""


class QueueObserver(Protocol):
    """Receives queue events for metrics and logs; has no influence on the queue."""

    def begins(self) -> float:
        """The queue begins to work. Returns the mark from which `entered` and `looked` measure the
        duration."""
        ...

    def entered(self, pool: PoolState, place: Waiting, outcome: str, began: float) -> None:
        """A request needed to queue; the outcome is `reasons.HELD`, or why it was rejected."""

    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None:
        """A request left the queue; the outcome is `reasons.DISPATCHED`, or why it was dropped."""

    def evicted(self, pool: PoolState, priority: int) -> None:
        """A running request was evicted in favor of queued ones."""

    def looked(self, began: float) -> None:
        """The queue has checked which requests may be sent."""

    def wanted(self, pool: PoolState) -> None:
        """A request has arrived while there is no endpoint, whether it waits or was rejected; reported at
        once, and at most once a second."""

    def starves(self, pool: PoolState, wait_s: float) -> None:
        """Requests begin to wait because there is no endpoint, each for up to `wait_s`."""

    def recovers(self, pool: PoolState) -> None:
        """An endpoint came for which requests waited."""

    def failed(self, pool: PoolState, what: str) -> None:
        """The exception being handled prevented a request from being sent or refused. The queue continues
        unless this method raises it again."""


class QueueShell(Protocol):
    """Drives the queues of a process."""

    @property
    def observer(self) -> QueueObserver: ...
    def alarm(self, look: Callable[[float], None]) -> Alarm:
        """Make the alarm of one queue."""
        ...

    def hints(self, life: Life, flow_header: bytes) -> QueueHints:
        """The hints of a request; if there is a `flow_header`, only that header names its flow."""
        ...

    def size(self, life: Life) -> int:
        """Bytes that a request holds while it is queued."""
        ...
