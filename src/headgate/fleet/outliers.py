"""Endpoints that fail far more often than the rest of their pool, though never many times in a row.

Requests and failures are counted with a memory of half a minute, for each endpoint and for its pool. An
endpoint is an outlier if chance would hardly give it that many failures at the failure rate of the others:
n requests with a share q of failures, where p is expected, have a probability below exp(-n D(q, p)), D being
the relative entropy (Chernoff's bound).
"""

from __future__ import annotations

import math

MEMORY_S = 30.0
MIN_FAILURES = 5.0
EVIDENCE = 10.0
"""Chance alone would do it once in 22,000 times (exp of this)."""
MIN_EXCESS = 0.05
"""Of the share of failures over that of the others: less is not worth an endpoint's capacity."""
MIN_EXPECTED = 0.01
"""Some failures are expected of any endpoint."""


class Tally:
    """Requests and failures of late. Nothing is done for a request: they are counted at the next failure."""

    __slots__ = ("_at", "_started", "failures", "requests")

    def __init__(self, now: float = -math.inf, started: int = 0) -> None:
        self.requests = self.failures = 0.0
        self._at, self._started = now, started

    def read(self, now: float, started: int) -> None:
        """Takes the count of all requests until now, as if those since the last time had come evenly."""
        passed = max(now - self._at, 0.0) / MEMORY_S
        kept = math.exp(-passed)
        came = started - self._started
        self.requests *= kept
        self.failures *= kept
        self.requests += came if passed < 1e-6 else came * (1.0 - kept) / passed if passed < math.inf else 0.0
        self._at, self._started = now, started

    def failed(self, now: float, started: int) -> None:
        self.read(now, started)
        self.failures += 1.0

    def subtract(self, part: Tally) -> None:
        """Leaves out what an endpoint did that is not counted any more."""
        self.requests = max(self.requests - part.requests, 0.0)
        self.failures = max(self.failures - part.failures, 0.0)

    def clear(self) -> None:
        self.requests = self.failures = 0.0

    @property
    def share(self) -> float:
        """Of its requests, that failed."""
        return min(self.failures / self.requests, 1.0) if self.requests else float(self.failures > 0)


def is_outlier(one: Tally, pool: Tally) -> bool:
    """Whether an endpoint fails far more often than the others of its pool; both tallies are of now."""
    if one.failures < MIN_FAILURES:
        return False
    others = max(pool.requests - one.requests, 0.0)
    others_failed = min(max(pool.failures - one.failures, 0.0), others)
    expected = max((others_failed + 0.5) / (others + 1.0), MIN_EXPECTED)
    share = one.share
    return share >= expected + MIN_EXCESS and one.requests * _entropy(share, expected) >= EVIDENCE


def _entropy(share: float, expected: float) -> float:
    """D(share, expected) of two coins, in nats; expected lies between 0 and 1."""
    rest = 1.0 - share
    failed = share * math.log(share / expected) if share else 0.0
    return failed + (rest * math.log(rest / (1.0 - expected)) if rest else 0.0)
