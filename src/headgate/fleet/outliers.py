"""Detects endpoints that fail far more often than the rest of their pool, though not many times in a row.

Requests and failures are counted with a memory of half a minute, per endpoint and per pool. An endpoint is an
outlier if that many failures are very unlikely at the failure rate of the others: n requests with a failure
rate of q, where p is expected, have a probability below exp(-n D(q, p)), where D is the relative entropy
(Chernoff's bound).
"""

from __future__ import annotations

import math

MEMORY_S = 30.0
MIN_FAILURES = 5.0
EVIDENCE = 10.0
"""A probability by chance of one in 22,000 (exp of this)."""
MIN_EXCESS = 0.05
"""Least difference of failure rates: a smaller one is not worth an endpoint's capacity."""
MIN_EXPECTED = 0.01
"""Some failures are expected of any endpoint."""


class Tally:
    """Recent requests and failures. Requests cost nothing: they are counted at the next failure."""

    __slots__ = ("_at", "_started", "failures", "requests")

    def __init__(self, now: float = -math.inf, started: int = 0) -> None:
        self.requests = self.failures = 0.0
        self._at, self._started = now, started

    def read(self, now: float, started: int) -> None:
        """Update to the count `started` of all requests at `now`, spreading those since the last update
        evenly."""
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
        """Leave out the requests and failures of an endpoint."""
        self.requests = max(self.requests - part.requests, 0.0)
        self.failures = max(self.failures - part.failures, 0.0)

    def clear(self) -> None:
        self.requests = self.failures = 0.0

    @property
    def share(self) -> float:
        """Failure rate."""
        return min(self.failures / self.requests, 1.0) if self.requests else float(self.failures > 0)


def is_outlier(one: Tally, pool: Tally) -> bool:
    """Whether an endpoint fails far more often than the others of its pool; both tallies must be up to
    date."""
    if one.failures < MIN_FAILURES:
        return False
    others = max(pool.requests - one.requests, 0.0)
    others_failed = min(max(pool.failures - one.failures, 0.0), others)
    expected = max((others_failed + 0.5) / (others + 1.0), MIN_EXPECTED)
    share = one.share
    return share >= expected + MIN_EXCESS and one.requests * _entropy(share, expected) >= EVIDENCE


def _entropy(share: float, expected: float) -> float:
    """D(share, expected) of two Bernoulli variables, in nats; expected lies between 0 and 1."""
    rest = 1.0 - share
    failed = share * math.log(share / expected) if share else 0.0
    return failed + (rest * math.log(rest / (1.0 - expected)) if rest else 0.0)
