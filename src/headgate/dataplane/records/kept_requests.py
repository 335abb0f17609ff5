"""Keeps the stories of requests that failed, and of the slowest ones, for the dashboard.

All other requests cost two comparisons. What is slow needs no setting: of each minute, the few are kept whose
first token, or whose response if it is not streamed, took longest.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from headgate.dataplane.records import kept_story
from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.dataplane.records.kept_story import KeptPage, KeptRequest
    from headgate.dataplane.records.served_request import ServedRequest

log = logging.getLogger(__name__)

SLOW_OF_A_MINUTE: Final = 10
MINUTES: Final = 10
FAILED: Final = 100
REJECTED: Final = 50
FAILURES_PER_S: Final = 10
"""More than that are counted only, so that a flood of errors costs no more."""
_PERIOD_S: Final = 60.0


class KeptRequests:
    """Of one process."""

    def __init__(self) -> None:
        self._failed: deque[KeptRequest] = deque(maxlen=FAILED)
        self._rejected: deque[KeptRequest] = deque(maxlen=REJECTED)
        self._slow: list[tuple[float, int, KeptRequest]] = []
        """The slowest of this minute, as a heap: the least slow one first."""
        self._past: deque[list[tuple[float, int, KeptRequest]]] = deque(maxlen=MINUTES - 1)
        self._quick_s = -1.0
        """A request of this minute that was not slower than this is not kept. Below 0 while any is: the
        loop's clock has milliseconds, and quick requests take none."""
        self._minute_ends = 0.0
        self._second_ends = 0.0
        self._in_second = 0
        self._left_out = 0
        self._number = 0

    def settled(self, ended: ServedRequest, tokens: tuple[int, int] | None, now: float) -> None:
        """A request is over."""
        account = ended.life.account
        if account.outcome != SERVED or account.status >= 400:
            self._keep_failed(ended, tokens, now)
            return
        first_at = account.first_byte_at
        end = first_at if first_at and ended.life.decision.stream else now
        took_s = end - ended.request.arrived_at
        if now >= self._minute_ends:
            self._next_minute(now)
        if took_s > self._quick_s:
            self._keep_slow(ended, tokens, took_s, now)

    def _keep_failed(self, ended: ServedRequest, tokens: tuple[int, int] | None, now: float) -> None:
        if now >= self._second_ends:
            self._second_ends, self._in_second = now + 1.0, 0
        if self._in_second >= FAILURES_PER_S:
            self._left_out += 1
            return
        self._in_second += 1
        kept = self._story(ended, tokens, now)
        if kept is not None:
            (self._rejected if kept.origin == "client" else self._failed).append(kept)

    def _keep_slow(
        self, ended: ServedRequest, tokens: tuple[int, int] | None, took_s: float, now: float
    ) -> None:
        kept = self._story(ended, tokens, now)
        if kept is None:
            return
        if len(self._slow) < SLOW_OF_A_MINUTE:
            heapq.heappush(self._slow, (took_s, kept.number, kept))
        else:
            heapq.heapreplace(self._slow, (took_s, kept.number, kept))
        if len(self._slow) == SLOW_OF_A_MINUTE:
            self._quick_s = self._slow[0][0]

    def _next_minute(self, now: float) -> None:
        """Forget the oldest, one for each minute that has passed."""
        passed = int((now - self._minute_ends) // _PERIOD_S) + 1 if self._minute_ends else 1
        self._past.append(self._slow)
        for _ in range(min(passed - 1, MINUTES)):
            self._past.append([])
        self._slow = []
        self._quick_s = -1.0
        self._minute_ends = now + _PERIOD_S

    def _story(self, ended: ServedRequest, tokens: tuple[int, int] | None, now: float) -> KeptRequest | None:
        self._number += 1
        try:
            return kept_story.story(ended, tokens, self._number, now)
        except Exception:  # a bug here must not cost the client its response
            log.exception("a request is not kept for the dashboard: %s", ended.life.story())
            return None

    def shown(self, now: float) -> KeptPage:
        """All that are kept, the newest first."""
        if now >= self._minute_ends:
            self._next_minute(now)
        slow = [kept for minute in (*self._past, self._slow) for _, _, kept in minute]
        slow.sort(key=lambda kept: kept.at, reverse=True)
        return kept_story.KeptPage(
            slow, list(reversed(self._failed)), list(reversed(self._rejected)), self._left_out
        )
