"""Learns two numbers from measured times: least squares with forgetting, robust against outliers."""

from __future__ import annotations

KEPT = 0.98
"""Decay of older weight with each observation: half of it is gone after 34."""
PRIOR_WEIGHT = 2.0
"""Weight of the prior, in observations."""
LARGEST_SURPRISE = 2.0
"""An observation counts as at most this factor above or below its expectation. A stall, or a cache without
the expected blocks, moves the fit a little; a changed GPU moves it again each time."""
STREAK = 3
"""After this many consecutive outliers on the same side, the fit is wrong, and each one halves its weight."""
STREAK_KEPT = 0.5
SHORTEST_S = 1e-4
_ANCHOR = 1e-3


class Fit:
    """Fit of `took = each * times + per * amount`, weighted by 1/expected, because errors grow with size.

    Weighted least squares in two unknowns by their normal equations, with exponential forgetting (the
    simplest recursive least squares), and observations clipped to a factor of their expectation (Huber). Each
    observation takes constant time.
    """

    __slots__ = (
        "_aa",
        "_guess",
        "_held",
        "_kept",
        "_streak",
        "_streak_kept",
        "_ta",
        "_tt",
        "_ty",
        "_ya",
        "each_s",
        "observations",
        "per_s",
    )

    def __init__(
        self, each_s: float, per_s: float, kept: float = KEPT, *, gives_up: bool = False, held: float = 0.0
    ) -> None:
        """`each_s` and `per_s` are priors, weighted as if observed separately, with an amount of 1.

        `gives_up`: forget after a streak of outliers, for values that can change abruptly. `held` keeps
        `per_s` at its prior until the amounts vary enough (ridge regression; the ratio of noise variance to
        prior variance): with noise of a share n of `each_s`, and a prior that may be off by g, use n² / g².
        """
        self.each_s = each_s
        """Seconds for each time."""
        self.per_s = per_s
        """Seconds for an amount of 1; always above 0."""
        self.observations = 0
        self._kept = kept
        self._held, self._guess = held, per_s
        self._streak_kept = STREAK_KEPT if gives_up else kept
        self._streak = 0
        """Consecutive outliers: positive if they took too long, negative if too short."""
        weight = PRIOR_WEIGHT / (each_s + per_s + SHORTEST_S)
        self._tt = self._aa = weight
        self._ta = 0.0
        self._ty = weight * each_s
        self._ya = weight * per_s

    def scaled(self, factor: float) -> Fit:
        """A copy of this fit as if each time had been `factor` times as long."""
        scaled = Fit(self.each_s * factor, self.per_s * factor, self._kept, held=self._held)
        scaled._streak_kept = self._streak_kept
        # Weights are 1/expected; the sums of measured times contain that factor already.
        scaled._tt, scaled._ta, scaled._aa = self._tt / factor, self._ta / factor, self._aa / factor
        scaled._ty, scaled._ya = self._ty, self._ya
        return scaled

    def learn(self, times: float, amount: float, took_s: float) -> float:
        """Add an observation; `times` or `amount` may be 0. Returns the time that was expected, which is
        never 0."""
        expected = times * self.each_s + amount * self.per_s + SHORTEST_S
        took, weight, kept = took_s, 1.0 / expected, self._kept
        if took > expected * LARGEST_SURPRISE:
            took = expected * LARGEST_SURPRISE
            self._streak = max(self._streak, 0) + 1
        elif took < expected / LARGEST_SURPRISE:
            took = expected / LARGEST_SURPRISE
            self._streak = min(self._streak, 0) - 1
        else:
            self._streak = 0
        if abs(self._streak) >= STREAK:
            kept = self._streak_kept
        self._tt = kept * self._tt + weight * times * times
        self._ta = kept * self._ta + weight * times * amount
        self._aa = kept * self._aa + weight * amount * amount
        self._ty = kept * self._ty + weight * times * took
        self._ya = kept * self._ya + weight * amount * took
        self.observations += 1
        self._solve()
        return expected

    def _solve(self) -> None:
        """Solve the normal equations, anchored slightly at the present values, so that unobserved ones do not
        drift."""
        anchor = _ANCHOR * (self._tt + self._aa)
        held = self._held * self.each_s
        tt, aa = self._tt + anchor, self._aa + anchor + held
        ty, ya = self._ty + anchor * self.each_s, self._ya + anchor * self.per_s + held * self._guess
        determinant = tt * aa - self._ta * self._ta
        each = (ty * aa - ya * self._ta) / determinant
        per = (ya * tt - ty * self._ta) / determinant
        if each < 0.0:
            each, per = 0.0, ya / aa
        if per > 0.0:
            self.per_s = per
        else:  # keep it, and fit the other one to it
            each = max((ty - self.per_s * self._ta) / tt, 0.0)
        self.each_s = each
