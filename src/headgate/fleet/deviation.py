"""Decides whether an endpoint differs in speed from the rest of its pool by more than chance.

The time of one prompt is weak evidence: prompts that share a step get their first tokens together, so some of
the work of one is attributed to the one before it. A policy that reacts to such small differences sends long
prompts after them and queues up work on one of several equal endpoints. So the endpoints of a pool learn
shared rates until one differs significantly, and again once it matches the others: the cause may be gone, or
it was chance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.fleet.fit import LARGEST_SURPRISE

if TYPE_CHECKING:
    from headgate.fleet.rates import Rates

LEARNED_BY = 24
"""Observations after which a pool's rates no longer depend on their prior. Before, every observation
deviates."""
KEPT = 31 / 32
"""Decay of older observations with each new one."""
MIN_OBSERVATIONS = 8
LARGEST_CHANCE = 1.25
"""Equal endpoints differ by less than this over the remembered observations; GPUs of two generations differ
by more."""
ERRORS = 4.0
"""A difference is significant if it exceeds this many standard errors."""
ALIKE = 1.125
"""An endpoint that differs by less than this, as surely, matches the others."""


class Deviation:
    """Deviation of one endpoint from the pool's shared rates: seconds taken over seconds expected.

    A ratio of sums, because time attributed to one prompt too much is missing from the next. Its standard
    error is that of the residuals, which overstates it for the same reason.
    """

    __slots__ = ("_expected_s", "_observations", "_squares", "_took_s", "is_alike", "shared")

    def __init__(self, shared: Rates) -> None:
        self.shared = shared
        self._observations = 0
        self._expected_s = self._took_s = self._squares = 0.0
        self.is_alike = False
        """Whether the endpoint is known to be as fast as the others."""

    def observe(self, expected_s: float, took_s: float) -> float | None:
        """Add an observation: prompts expected to take `expected_s` took `took_s`, which counts up to
        LARGEST_SURPRISE.

        Returns the factor by which the endpoint is slower than the others; None while that may be chance.
        """
        took_s = min(max(took_s, expected_s / LARGEST_SURPRISE), expected_s * LARGEST_SURPRISE)
        self._observations += 1
        self._expected_s = KEPT * self._expected_s + expected_s
        self._took_s = KEPT * self._took_s + took_s
        factor = self._took_s / self._expected_s
        self._squares = KEPT * KEPT * self._squares + (took_s - factor * expected_s) ** 2
        error = math.sqrt(self._squares) / self._expected_s
        far = max(factor, 1.0 / factor)
        self.is_alike = (
            self._observations >= MIN_OBSERVATIONS and far + 2.0 * error <= LARGEST_CHANCE and far <= ALIKE
        )
        if self._observations < MIN_OBSERVATIONS:
            return None
        return factor if far > LARGEST_CHANCE and abs(factor - 1.0) >= ERRORS * error else None

    def learn(self, rates: Rates, starts: float, tokens: int, took_s: float) -> Rates:
        """Learn that the endpoint, which has `rates`, took `took_s` seconds to prefill `tokens`, with
        `starts` starts from idle. Returns the rates that it has from now on: the shared ones, or its own."""
        shared = self.shared
        expected_s = shared.expected_s(starts, tokens)
        rates.learn(starts, tokens, took_s)
        if shared.observations <= LEARNED_BY:
            return rates
        factor = self.observe(expected_s, took_s)
        if factor is None:
            return shared if self.is_alike else rates
        return shared.fork(factor) if rates is shared else rates
