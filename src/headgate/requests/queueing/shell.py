"""What a queue needs of the shell that drives it: an alarm, what requests ask for, and who is told of it."""

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
    """Calls the queue's `look` with the time, after it was woken or when a time has come."""

    def wake(self) -> None:
        """Soon, and once, however often this is called before that."""

    def wake_at(self, at: float, now: float) -> None:
        """At a time, unless it is woken before; infinite is never."""

    def stop(self) -> None:
        """Not any more: the queue has begun to look, or has nothing to look for."""


class QueueObserver(Protocol):
    """Is told what happens in queues, for metrics and logs; changes nothing."""

    def begins(self) -> float:
        """The queue begins to work: the mark from which `entered` and `looked` measure how long that took."""
        ...

    def entered(self, pool: PoolState, place: Waiting, outcome: str, began: float) -> None:
        """A request wanted to wait; the outcome is `reasons.HELD`, or why it may not."""

    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None:
        """A request waits no more; the outcome is `reasons.DISPATCHED`, or why it was not sent."""

    def evicted(self, pool: PoolState, priority: int) -> None:
        """A running request was ended for others that wait."""

    def looked(self, began: float) -> None:
        """The queue has looked who may go."""

    def starves(self, pool: PoolState, wait_s: float) -> None:
        """Requests begin to wait because there is no endpoint; each does for so long."""

    def recovers(self, pool: PoolState) -> None:
        """An endpoint has come that requests waited for."""

    def failed(self, pool: PoolState, what: str) -> None:
        """An exception, which is being handled, kept a request from being sent or refused. The queue goes on
        unless this raises it again."""


class QueueShell(Protocol):
    """What drives the queues of a process."""

    @property
    def observer(self) -> QueueObserver: ...
    def alarm(self, look: Callable[[float], None]) -> Alarm:
        """Makes the alarm of one queue."""
        ...

    def hints(self, life: Life, flow_header: bytes) -> QueueHints:
        """What a request asks for; where there is a `flow_header`, that alone names its flow."""
        ...

    def size(self, life: Life) -> int:
        """Bytes that a request holds while it waits."""
        ...
