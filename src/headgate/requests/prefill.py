"""One attempt to have another endpoint prefill a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.engines.transfer import PrefillResponse
from headgate.fleet import blame

if TYPE_CHECKING:
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice, Request


class PrefillAttempt:
    """Over once `end` was called; successful if `took_s` is set."""

    __slots__ = (
        "_pool",
        "began_at",
        "booking",
        "choice",
        "ended_at",
        "has_timer",
        "heard_at",
        "is_over",
        "is_sent",
        "load",
        "number",
        "response",
        "status",
        "took_s",
    )

    def __init__(self, pool: PoolState, choice: Choice, request: Request, number: int, now: float) -> None:
        """Book the prompt. `request` is the one for which the endpoint was picked, and `number` that of the
        attempt."""
        self._pool = pool
        self.choice = choice
        self.load = choice.load
        self.response = PrefillResponse()
        self.number = number
        self.began_at = self.heard_at = now
        self.ended_at = 0.0
        """When it succeeded or was ended; 0 before that."""
        self.took_s = 0.0
        """Duration in seconds; 0 until it has succeeded."""
        self.has_timer = pool.pool.timeout_s is not None
        """Whether the shell enforces a timeout, by the pool's settings when it began."""
        self.is_sent = False
        """Whether the endpoint has the request: before that, its silence means nothing."""
        self.is_over = False
        self.status = 0
        """Of its response; 0 until the response has begun."""
        uncached_tokens = max(request.prompt_tokens - choice.cached_tokens, 0)
        self.booking = self.load.book(uncached_tokens, 0, now, adapter=request.adapter)
        pool.policy.booked(request, choice, now)

    def silent_s(self, now: float) -> float:
        """Seconds since the endpoint last sent anything, after it got the request."""
        return now - self.heard_at if self.is_sent else 0.0

    def heard(self, now: float) -> None:
        """A part of the response arrived."""
        self.heard_at = self.load.heard_at = now

    def head(self, plane: DataPlane, status: int, rest_s: float | None, now: float) -> bool:
        """The response head arrived; return whether the endpoint failed to prefill."""
        self.status = status
        if status < 400:
            self._pool.evidence.prefills.note(now - self.heard_at)
        self.heard_at = now
        if rest_s is not None:
            plane.health.rests(self._pool, self.load, rest_s, now)
        if rest_s is not None or status >= 500 or status < 200 or 300 <= status < 400:
            return True
        if self.load.suspect_until > now and not blame.is_suspect(status):
            self.load.responded(now, self.began_at)
        return False

    def succeeded(self, plane: DataPlane, response: PrefillResponse, now: float) -> None:
        """The prompt is prefilled."""
        self.response = response
        if self.load.failures_in_row:
            self.load.succeeded(now, self.began_at)
        self.booking.first_token(now)
        self.took_s = max(now - self.began_at, 1e-9)
        plane.observer.prefilled(self._pool, self.took_s)
        self.end(now)

    def end(self, now: float) -> None:
        """End the booking. A second call does nothing."""
        if self.is_over:
            return
        self.is_over = True
        self.ended_at = now
        self.booking.end(now)
        if self._pool.queue is not None:
            self._pool.queue.room_made()
