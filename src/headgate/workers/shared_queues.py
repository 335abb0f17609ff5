"""The supervisor's side of queues that all workers of a gateway have together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

from headgate.flow.sharing import Hub, PoolReport
from headgate.workers import messages

GATHER_S = 0.02
"""After a report others are waited for, which come about when it does: one answer is for all of them."""


class Worker(Protocol):
    """Who reports, and is told its part."""

    def __hash__(self) -> int: ...
    def tell(self, order: messages.Shares, /) -> object: ...


class SharedQueues:
    """Tells all workers what each may do, soon after any of them has told something."""

    def __init__(self, workers: int) -> None:
        self._hub: Hub[Worker] = Hub(workers)
        self._is_due = False

    def hear(self, worker: Worker, reports: Mapping[str, PoolReport], gone: Collection[str]) -> None:
        """What waits at a worker, and pools that are no more."""
        self._hub.hear(worker, reports)
        self._hub.drop(worker, gone)
        self._tell_soon()

    def forget(self, worker: Worker) -> None:
        """It has ended: others have its part."""
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
