"""Prefill and decode rates of an endpoint, learned from its token times.

Prefill has two numbers: seconds per prompt token, and the delay that an idle endpoint adds before the first
token (network, its current step, the first decode step). Decode has the recent pace of its streams, and how
much each slows the others.
"""

from __future__ import annotations

from headgate.fleet.fit import LARGEST_SURPRISE, SHORTEST_S, Fit
from headgate.fleet.pool_rates import PRIOR_TOKEN_S, PoolRates

PRIOR_DELAY_S = 0.02
STEP_SHARE = 1 / 32
"""Weight of one stream in the pace."""


class Rates:
    """Learned rates. Prefill and decode share steps, so each has to be separated from the other."""

    __slots__ = ("_prefill", "delay_s", "is_paced", "observations", "pool", "step_s", "token_s")

    def __init__(
        self, token_s: float = PRIOR_TOKEN_S, delay_s: float = PRIOR_DELAY_S, pool: PoolRates | None = None
    ) -> None:
        self.token_s = token_s
        """Seconds per prompt token, without decoding sequences beside it."""
        self.delay_s = delay_s
        """Additional seconds of an idle endpoint."""
        self.step_s = 0.0
        """Seconds between the tokens of a stream; 0 until a stream has ended."""
        self.is_paced = False
        """Whether `step_s` comes from streams."""
        self.pool = pool or PoolRates(token_s)
        """The rates that all endpoints of a pool share."""
        self.observations = 0
        """Number of prefill observations."""
        self._prefill = Fit(delay_s, token_s * 1e3, gives_up=True)

    @property
    def beside_s(self) -> float:
        """Seconds by which each decoding sequence lengthens a step."""
        return self.pool.beside_tokens * self.token_s

    def fork(self, factor: float = 1.0) -> Rates:
        """A copy as if each time had been `factor` times as long, which then learns independently."""
        fork = Rates(self.token_s * factor, self.delay_s * factor, self.pool)
        fork._prefill = self._prefill.scaled(factor)
        fork.step_s, fork.is_paced, fork.observations = self.step_s, self.is_paced, self.observations
        return fork

    def expected_s(self, starts: float, tokens: int) -> float:
        """Expected seconds to prefill `tokens`, with `starts` starts from idle; above 0."""
        return starts * self.delay_s + tokens * self.token_s + SHORTEST_S

    def learn(self, starts: float, tokens: int, took_s: float) -> None:
        """Learn that prefilling `tokens` took `took_s` seconds, with `starts` starts from idle."""
        fit = self._prefill
        fit.learn(starts, tokens * 1e-3, took_s)
        self.observations += 1
        self.delay_s, self.token_s = fit.each_s, fit.per_s * 1e-3
        self.pool.learn_prefill(self.token_s)

    def learn_step(self, step_s: float) -> None:
        """Learn the mean time between the tokens of a stream served to its end."""
        known = self.step_s
        if known <= 0.0:
            self.step_s = step_s
        else:
            seen = min(max(step_s, known / LARGEST_SURPRISE), known * LARGEST_SURPRISE)
            self.step_s = known + STEP_SHARE * (seen - known)

    def learn_pace(self, step_s: float, decoding: float, prefill_s: float) -> None:
        """Like `learn_step`, where each step had `decoding` sequences on average, itself included, and spent
        `prefill_s` seconds on prefill."""
        self.learn_step(step_s)
        self.is_paced = True
        self.pool.learn_pace((step_s - prefill_s) / self.token_s, decoding)
