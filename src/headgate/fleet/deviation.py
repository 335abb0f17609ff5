"""Whether an endpoint is as fast as the others of its pool, as far as that can be told from chance.

What one prompt took says little: those that share a step have their first tokens together, so that some of
the work of the next is counted to the one before it. A policy that sees small differences in this sends long
prompts after them, and what makes endpoints that are equal look different makes a queue on one of them. So
endpoints learn together until one has shown that it is another kind, and again once it is as the others: what
made it slow may be over, or was chance after all.
"""

from __future__ import annotations

import math

from headgate.fleet.fit import LARGEST_SURPRISE

LEARNED_BY = 24
"""Observations of a pool: by then it knows what to expect, wherever it began; before, all of it surprises."""
KEPT = 31 / 32
"""Of what was seen, with each observation."""
MIN_OBSERVATIONS = 8
LARGEST_CHANCE = 1.25
"""Endpoints that are equal differ less, over so many observations. GPUs of two generations differ by more."""
ERRORS = 4.0
"""A difference is no chance that is so many times its standard error."""
ALIKE = 1.125
"""One that differs less than this, as surely, is as the others."""


class Deviation:
    """Of one endpoint from what all together have learned: seconds that prompts took over those expected.

    A ratio of sums, as what is counted to one prompt too much is counted to the next too little. Its standard
    error is that of the residuals, which overstates it for the same reason.
    """

    __slots__ = ("_expected_s", "_observations", "_squares", "_took_s", "is_alike")

    def __init__(self) -> None:
        self._observations = 0
        self._expected_s = self._took_s = self._squares = 0.0
        self.is_alike = False
        """Whether it is known to take as long as the others."""

    def observe(self, expected_s: float, took_s: float) -> float | None:
        """Prompts took so long that were expected to take `expected_s`; one surprise counts only so much.

        Says how many times as long as the others it takes; None while that may be chance.
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
