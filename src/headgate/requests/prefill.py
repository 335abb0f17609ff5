"""One attempt to have a prompt prefilled by another endpoint: its account with that endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.engines.transfer import PrefillAnswer

if TYPE_CHECKING:
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice, Request


class PrefillAttempt:
    """Over once `end` was called; it has succeeded if `took_s` is set."""

    __slots__ = (
        "_pool",
        "answer",
        "began_at",
        "booking",
        "choice",
        "heard_at",
        "is_over",
        "is_sent",
        "load",
        "status",
        "took_s",
    )

    def __init__(self, pool: PoolState, choice: Choice, request: Request, now: float) -> None:
        """Books it. `request` is what the endpoint was picked for."""
        self._pool = pool
        self.choice = choice
        self.load = choice.load
        self.answer = PrefillAnswer()
        self.began_at = self.heard_at = now
        self.took_s = 0.0
        """How long it took; 0 as long as it has not succeeded."""
        self.is_sent = False
        """Whether the endpoint has it: before, its silence tells nothing."""
        self.is_over = False
        self.status = 0
        """Of its answer; 0 until that has begun."""
        uncached_tokens = max(request.prompt_tokens - choice.cached_tokens, 0)
        self.booking = self.load.book(uncached_tokens, 0, now, adapter=request.adapter)
        pool.policy.booked(request, choice, now)

    def silent_s(self, now: float) -> float:
        """For how long the endpoint, which was asked, has sent nothing."""
        return now - self.heard_at if self.is_sent else 0.0

    def heard(self, now: float) -> None:
        """A part of its answer is here."""
        self.heard_at = self.load.heard_at = now

    def succeeded(self, answer: PrefillAnswer, now: float) -> None:
        self.answer = answer
        if self.load.failures_in_row:
            self.load.succeeded(now, self.began_at)
        self.booking.first_token(now)
        self.took_s = max(now - self.began_at, 1e-9)

    def end(self, now: float) -> None:
        """The endpoint has it no more. Twice is harmless."""
        if self.is_over:
            return
        self.is_over = True
        self.booking.end(now)
        if self._pool.queue is not None:
            self._pool.queue.room_made()
