"""Adds up how long the tokens of streamed responses took at the engines of one pool.

Sums and counts, so that those of several processes add up to the mean over all requests.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

WINDOW_S: Final = 15
"""Recent times are those of about this time; there is a sweep each second."""


class Times(NamedTuple):
    """Of streamed responses with at least two tokens that were served to their end."""

    requests: int = 0
    ttft_s: float = 0.0
    """Sum of their times from sending to the first token: without the queue of the gateway."""
    tokens: int = 0
    """Tokens after their first ones."""
    tokens_s: float = 0.0
    """Sum of the times that these took."""
    queued: int = 0
    """Requests at whose end others queued in the engine, or it did not report how many."""


class StreamTimes:
    """Of one pool, since it is known."""

    __slots__ = ("_past", "queued", "requests", "tokens", "tokens_s", "ttft_s")

    def __init__(self) -> None:
        self.requests = 0
        self.ttft_s = 0.0
        self.tokens = 0
        self.tokens_s = 0.0
        self.queued = 0
        self._past: deque[Times] = deque([self._now()], maxlen=WINDOW_S + 1)
        """The sums at the last sweeps, oldest first."""

    def add(self, ttft_s: float, tokens: int, tokens_s: float, *, is_queued: bool) -> None:
        """Count a response; `tokens` and `tokens_s` are those after the first token."""
        self.requests += 1
        self.ttft_s += ttft_s
        self.tokens += tokens
        self.tokens_s += tokens_s
        self.queued += is_queued

    def sweep(self) -> None:
        """Called about once a second."""
        self._past.append(self._now())

    def recent(self) -> Times:
        past = self._past[0]
        return Times(
            self.requests - past.requests,
            # The difference of two sums may be a little below 0.
            max(self.ttft_s - past.ttft_s, 0.0),
            self.tokens - past.tokens,
            max(self.tokens_s - past.tokens_s, 0.0),
            self.queued - past.queued,
        )

    def _now(self) -> Times:
        return Times(self.requests, self.ttft_s, self.tokens, self.tokens_s, self.queued)
