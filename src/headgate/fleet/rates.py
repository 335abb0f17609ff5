"""How fast an endpoint prefills and decodes, learned from what its tokens took.

Of prefill two numbers: seconds for each prompt token, and the delay before the first token that an idle
endpoint adds (network, its current step, the first decode step). Fitted by least squares that forget, which
costs the same for the thousandth observation as for the first. Of decoding, the pace of its streams of late.
"""

from __future__ import annotations

PRIOR_TOKEN_S = 1 / 10_000
"""A guess, before anything is known: between a small model on a large GPU and the reverse."""
PRIOR_DELAY_S = 0.02

KEPT = 0.98
"""Of the weight of what was learned, with each observation: half of it is forgotten after 34."""
PRIOR_WEIGHT = 2.0
"""The guess counts as much as so many observations."""
LARGEST_SURPRISE = 2.0
"""An observation counts as at most so many times longer or shorter than expected: a stall, or a cache that
does not hold what was believed, moves the fit a little; a GPU that has changed moves it again each time."""
SHORTEST_S = 1e-4
STEP_SHARE = 1 / 32
"""How far one stream moves the pace."""
_ANCHOR = 1e-3


class Rates:
    """A fit of `took = delay * starts + tokens * token_s`, weighted by 1/expected, as errors grow with size.

    Weighted least squares in two unknowns by their normal equations, with exponential forgetting (recursive
    least squares in its plainest form), and observations clipped to a factor of what was expected (Huber).
    """

    __slots__ = ("_kk", "_ky", "_sk", "_ss", "_sy", "delay_s", "observations", "step_s", "token_s")

    def __init__(self, token_s: float = PRIOR_TOKEN_S, delay_s: float = PRIOR_DELAY_S) -> None:
        self.token_s = token_s
        """Seconds for each token of a prompt."""
        self.delay_s = delay_s
        """Seconds that an idle endpoint takes besides those."""
        self.step_s = 0.0
        """Seconds from one token of a stream to the next; 0 until a stream has ended."""
        self.observations = 0
        self._believe(PRIOR_WEIGHT)

    def _believe(self, weight: float) -> None:
        """Takes the present numbers for `weight` observations: an idle endpoint, a thousand tokens."""
        per_thousand = self.token_s * 1e3
        weight /= self.delay_s + per_thousand + SHORTEST_S
        self._ss = self._kk = weight
        self._sk = 0.0
        self._sy = weight * self.delay_s
        self._ky = weight * per_thousand

    def fork(self) -> Rates:
        """Another that begins with what this one knows, and soon outweighs it by its own observations."""
        fork = Rates(self.token_s, self.delay_s)
        fork.step_s = self.step_s
        return fork

    def learn_step(self, step_s: float) -> None:
        """Notes the mean time between two tokens of a stream that was served to its end."""
        known = self.step_s
        if known <= 0.0:
            self.step_s = step_s
        else:
            seen = min(max(step_s, known / LARGEST_SURPRISE), known * LARGEST_SURPRISE)
            self.step_s = known + STEP_SHARE * (seen - known)

    def learn(self, starts: int, tokens: int, took_s: float) -> None:
        """Notes that `tokens` were prefilled in `took_s` seconds, of which `starts` times from idleness."""
        thousands = tokens * 1e-3
        expected = starts * self.delay_s + thousands * self.token_s * 1e3 + SHORTEST_S
        took = min(max(took_s, expected / LARGEST_SURPRISE), expected * LARGEST_SURPRISE)
        weight = 1.0 / expected
        self._ss = KEPT * self._ss + weight * starts * starts
        self._sk = KEPT * self._sk + weight * starts * thousands
        self._kk = KEPT * self._kk + weight * thousands * thousands
        self._sy = KEPT * self._sy + weight * starts * took
        self._ky = KEPT * self._ky + weight * thousands * took
        self.observations += 1
        self._solve()

    def _solve(self) -> None:
        """Anchored a little at the present numbers, so that what was long not observed stays as it was."""
        anchor = _ANCHOR * (self._ss + self._kk)
        ss, kk = self._ss + anchor, self._kk + anchor
        sy, ky = self._sy + anchor * self.delay_s, self._ky + anchor * self.token_s * 1e3
        determinant = ss * kk - self._sk * self._sk
        delay = (sy * kk - ky * self._sk) / determinant
        per_thousand = (ky * ss - sy * self._sk) / determinant
        if delay < 0.0:
            delay, per_thousand = 0.0, ky / kk
        self.delay_s = delay
        if per_thousand > 0.0:
            self.token_s = per_thousand * 1e-3
