"""Drives the queues of a gateway process: event loop, request headers, metrics and the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headgate.dataplane.queueing import queue_hints
from headgate.dataplane.queueing.alarm import LoopAlarm

if TYPE_CHECKING:
    from headgate.dataplane.queueing.host import Host
    from headgate.dataplane.queueing.metrics import WaitMetrics
    from headgate.dataplane.queueing.queue_hints import HintedRequest
    from headgate.flow.queue import Waiting
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.queueing.hints import QueueHints
    from headgate.requests.wait import Wait

log = logging.getLogger(__name__)


class LoopShell:
    """The `QueueShell` of all queues of a process."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.observer = Recording(host.waits)

    def alarm(self, look: Callable[[float], None]) -> LoopAlarm:
        host = self._host
        return LoopAlarm(host.loop, lambda: host.now(), look)

    def hints(self, life: Life, flow_header: bytes) -> QueueHints:
        request, settings = cast("HintedRequest", life.request), self._host.settings
        return queue_hints.read(request, settings, is_stream=life.decision.stream, flow_header=flow_header)

    def size(self, life: Life) -> int:
        return len(life.decision.body)


class Recording:
    """The `QueueObserver`: writes to metrics and to the log."""

    def __init__(self, metrics: WaitMetrics) -> None:
        self._metrics = metrics
        self.on_starved: Callable[[], object] = lambda: None
        """Called at once when a request arrives for a pool without endpoints."""

    def begins(self) -> float:
        return time.perf_counter()

    def entered(self, pool: PoolState, place: Waiting, outcome: str, began: float) -> None:
        self._metrics.entered(pool, place, outcome, time.perf_counter() - began)

    def ended(self, pool: PoolState, wait: Wait, outcome: str, now: float) -> None:
        self._metrics.ended(pool, wait, outcome, now)

    def evicted(self, pool: PoolState, priority: int) -> None:
        self._metrics.evicted(pool, priority)

    def looked(self, began: float) -> None:
        self._metrics.look.observe(time.perf_counter() - began)

    def wanted(self, pool: PoolState) -> None:
        self.on_starved()

    def starves(self, pool: PoolState, wait_s: float) -> None:
        start = pool.pool.start
        if start is not None:
            told = "%s has no endpoint and is being started, in about %g s: requests wait up to %g s for it"
            log.info(told, pool.name, start.expected_s, wait_s)
            return
        log.warning("%s has no ready endpoint: requests wait up to %g s for one", pool.name, wait_s)

    def recovers(self, pool: PoolState) -> None:
        log.info("%s has a ready endpoint: the requests that waited for one continue", pool.name)

    def failed(self, pool: PoolState, what: str) -> None:
        log.exception("a request to %s could not be %s", pool.pool.key, what)
