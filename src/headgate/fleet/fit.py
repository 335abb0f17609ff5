"""Two numbers learned from what things took: least squares that forget, and that one surprise cannot sway."""

from __future__ import annotations

KEPT = 0.98
"""Of the weight of what was learned, with each observation: half of it is forgotten after 34."""
PRIOR_WEIGHT = 2.0
"""A guess counts as much as so many observations."""
LARGEST_SURPRISE = 2.0
"""An observation counts as at most so many times longer or shorter than expected: a stall, or a cache that
does not hold what was believed, moves the fit a little; a GPU that has changed moves it again each time."""
STREAK = 3
"""So many surprises in a row, all too long or all too short, are none: what was learned is wrong, and half of
it is forgotten with each."""
STREAK_KEPT = 0.5
SHORTEST_S = 1e-4
_ANCHOR = 1e-3


class Fit:
    """A fit of `took = each * times + per * amount`, weighted by 1/expected, as errors grow with size.

    Weighted least squares in two unknowns by their normal equations, with exponential forgetting (recursive
    least squares in its plainest form), and observations clipped to a factor of what was expected (Huber).
    It costs the same for the thousandth observation as for the first.
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
        """Guesses of both; they are taken for observed apart from one another, with an amount of 1.

        `gives_up` is for what may change at once: a streak of surprises makes it forget. `held` keeps `per_s`
        at its guess until amounts have varied enough to tell (ridge regression, by the variance of the noise
        over that of the guess): noise of a share n of `each_s` on a guess that may be off by g needs n² / g².
        """
        self.each_s = each_s
        """Seconds for each time."""
        self.per_s = per_s
        """Seconds for an amount of 1; stays above 0."""
        self.observations = 0
        self._kept = kept
        self._held, self._guess = held, per_s
        self._streak_kept = STREAK_KEPT if gives_up else kept
        self._streak = 0
        """Surprises since the last observation that was none: more than 0 if they took too long."""
        weight = PRIOR_WEIGHT / (each_s + per_s + SHORTEST_S)
        self._tt = self._aa = weight
        self._ta = 0.0
        self._ty = weight * each_s
        self._ya = weight * per_s

    def scaled(self, factor: float) -> Fit:
        """Another that has seen the same, but each time `factor` times as long."""
        scaled = Fit(self.each_s * factor, self.per_s * factor, self._kept, held=self._held)
        scaled._streak_kept = self._streak_kept
        # Weights are 1/expected; sums of what it took have them as a factor already.
        scaled._tt, scaled._ta, scaled._aa = self._tt / factor, self._ta / factor, self._aa / factor
        scaled._ty, scaled._ya = self._ty, self._ya
        return scaled

    def learn(self, times: float, amount: float, took_s: float) -> float:
        """Takes an observation, of which `times` or `amount` may be 0; says what was expected, which is never
        0."""
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
        """Anchored a little at the present numbers, so that what was long not observed stays as it was."""
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
        else:  # it stays as it was, and the other number is what fits to that
            each = max((ty - self.per_s * self._ta) / tt, 0.0)
        self.each_s = each
