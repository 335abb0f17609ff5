"""The supervisor's side of the queues that the workers of a gateway share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

from headgate.flow.sharing import Hub, PoolReport
from headgate.workers import messages

GATHER_S = 0.02
"""Wait this long after a report for those of other workers, which arrive at about the same time, and respond
to all at once."""


class Worker(Protocol):
    """Sends reports, and receives its shares."""

    def __hash__(self) -> int: ...
    def tell(self, order: messages.Shares, /) -> object: ...


class SharedQueues:
    """Sends all workers their shares, soon after a report from any of them."""

    def __init__(self, workers: int) -> None:
        self._hub: Hub[Worker] = Hub(workers)
        self._is_due = False

    def hear(self, worker: Worker, reports: Mapping[str, PoolReport], gone: Collection[str]) -> None:
        """Take a worker's report of queued requests, and of pools that are gone."""
        self._hub.hear(worker, reports)
        self._hub.drop(worker, gone)
        self._tell_soon()

    def forget(self, worker: Worker) -> None:
        """The worker has ended: others get its share."""
        self._hub.forget(worker)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(GATHER_S, self._tell)

    def _tell(self) -> None:
        self._is_due = False
        for worker, shares in self._hub.shares().items():
            worker.tell(messages.Shares(shares))
