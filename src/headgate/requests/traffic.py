"""Counts the requests of one pool: those in flight, recent arrivals, and since when there are none."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from headgate.requests import surge
from headgate.requests.stream_times import StreamTimes

WINDOW_S: Final = 15.0
"""Arrivals and missed objectives are counted over about this time."""
_THOUSAND: Final = 1000.0
MIN_WINDOW_S: Final = 1.0
"""A rate over less time, just after the start, would be mostly chance."""


class Recent(NamedTuple):
    """Counts of the last `WINDOW_S`, or since the pool is known if that is shorter."""

    arrivals_per_s: float
    prompt_tokens_per_s: float
    """Tokens of their prompts that no cache was expected to have."""
    output_tokens_per_s: float
    """Tokens that their responses were expected to have."""
    objectives: int
    """Streamed requests with an objective for their first token that have ended."""
    misses: int
    """Those whose first token came later, or never."""
    cached_tokens_per_s: float = 0.0
    """Tokens of their prompts that a cache was expected to have."""
    surge: float = 1.0
    """How many times as many requests arrive since a step upwards as in the whole window; 1 without one."""
    prompt_squares_per_s: float = 0.0
    """Squares of the uncached thousands of tokens of each prompt."""


class _Counts(NamedTuple):
    at: float
    arrived: int
    slots: int
    prompt_tokens: int
    output_tokens: int
    objectives: int
    misses: int
    cached_tokens: int
    prompt_squares: int


class PoolTraffic:
    """Lives as long as the pool, across snapshots. Each request costs a few additions."""

    __slots__ = (
        "_past",
        "_slot",
        "arrived",
        "cached_tokens",
        "idle_since",
        "in_flight",
        "misses",
        "objectives",
        "output_tokens",
        "prompt_squares",
        "prompt_tokens",
        "slots",
        "times",
    )

    def __init__(self, now: float) -> None:
        self.arrived = 0
        """Requests that were admitted by the limits of their route, whether they were served or not."""
        self.slots = 0
        """Slots of time in which any arrived."""
        self.in_flight = 0
        """Those that have not ended, whether they wait or are at an endpoint."""
        self.idle_since = now
        """When the last request ended; when the pool became known if there was none."""
        self.prompt_tokens = 0
        """Those of all requests so far that no cache was expected to have."""
        self.prompt_squares = 0
        """The squares of those of each prompt."""
        self.output_tokens = 0
        """Those that all responses so far were expected to have."""
        self.cached_tokens = 0
        """The others of their prompts."""
        self.objectives = 0
        self.misses = 0
        self.times = StreamTimes()
        """How long tokens took."""
        self._slot = -1
        self._past: deque[_Counts] = deque([self._counts(now)], maxlen=int(WINDOW_S) + 1)
        """The counts at the last sweeps, oldest first."""

    def entered(self, now: float) -> PoolTraffic:
        """Count a request, on its way to the queue or an endpoint; returns this object."""
        self.arrived += 1
        self.in_flight += 1
        slot = int(now * surge.SLOTS_PER_S)
        if slot != self._slot:
            self._slot = slot
            self.slots += 1
        return self

    def asks(self, prompt_tokens: int, output_tokens: int, cached_tokens: int) -> None:
        """Count the work of a request, once: as soon as it is known what caches have of its prompt, which
        `prompt_tokens` are without."""
        self.prompt_tokens += prompt_tokens
        self.prompt_squares += prompt_tokens * prompt_tokens
        self.cached_tokens += cached_tokens
        self.output_tokens += output_tokens

    def ended(self, now: float) -> None:
        """Count the end of a request that entered."""
        self.in_flight -= 1
        self.idle_since = now

    def judged(self, *, is_missed: bool) -> None:
        """Count the end of a streamed request with an objective for its first token."""
        self.objectives += 1
        self.misses += is_missed

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        self._past.append(self._counts(now))
        self.times.sweep()

    def _counts(self, now: float) -> _Counts:
        return _Counts(
            now,
            self.arrived,
            self.slots,
            self.prompt_tokens,
            self.output_tokens,
            self.objectives,
            self.misses,
            self.cached_tokens,
            self.prompt_squares,
        )

    def idle_s(self, now: float) -> float | None:
        """How long there has been no request; None if there is one."""
        return None if self.in_flight else max(now - self.idle_since, 0.0)

    def recent(self, now: float) -> Recent:
        past = self._past[0]
        seconds = max(now - past.at, MIN_WINDOW_S)
        return Recent(
            (self.arrived - past.arrived) / seconds,
            (self.prompt_tokens - past.prompt_tokens) / seconds,
            (self.output_tokens - past.output_tokens) / seconds,
            self.objectives - past.objectives,
            self.misses - past.misses,
            (self.cached_tokens - past.cached_tokens) / seconds,
            self._surge(now),
            (self.prompt_squares - past.prompt_squares) / seconds / _THOUSAND**2,
        )

    def _surge(self, now: float) -> float:
        if self.arrived - self._past[0].arrived < surge.MIN_ARRIVALS:
            return 1.0
        readings = [surge.Reading(each.at, each.arrived, each.slots) for each in self._past]
        return surge.factor([*readings, surge.Reading(now, self.arrived, self.slots)])
