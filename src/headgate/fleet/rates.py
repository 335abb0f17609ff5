"""How fast an endpoint prefills and decodes, learned from what its tokens took.

Of prefill two numbers: seconds for each prompt token, and the delay before the first token that an idle
endpoint adds (network, its current step, the first decode step). Of decoding, the pace of its streams of
late, and what each of them takes from the others.
"""

from __future__ import annotations

from headgate.fleet.fit import LARGEST_SURPRISE, SHORTEST_S, Fit
from headgate.fleet.pool_rates import PRIOR_TOKEN_S, PoolRates

PRIOR_DELAY_S = 0.02
STEP_SHARE = 1 / 32
"""How far one stream moves the pace."""


class Rates:
    """What was learned. Prefill and decode share steps, so that each has to be told from the other."""

    __slots__ = ("_prefill", "delay_s", "is_paced", "observations", "pool", "step_s", "token_s")

    def __init__(
        self, token_s: float = PRIOR_TOKEN_S, delay_s: float = PRIOR_DELAY_S, pool: PoolRates | None = None
    ) -> None:
        self.token_s = token_s
        """Seconds for each token of a prompt, beside nothing that decodes."""
        self.delay_s = delay_s
        """Seconds that an idle endpoint takes besides those."""
        self.step_s = 0.0
        """Seconds from one token of a stream to the next; 0 until a stream has ended."""
        self.is_paced = False
        """Whether streams have shown that."""
        self.pool = pool or PoolRates(token_s)
        """The same for all endpoints of a pool."""
        self.observations = 0
        """Of prefill."""
        self._prefill = Fit(delay_s, token_s * 1e3, gives_up=True)

    @property
    def beside_s(self) -> float:
        """Seconds by which each sequence that decodes makes a step longer."""
        return self.pool.beside_tokens * self.token_s

    def fork(self, factor: float = 1.0) -> Rates:
        """Another that begins with what this one knows, where each time it took `factor` times as long, and
        goes on by its own observations."""
        fork = Rates(self.token_s * factor, self.delay_s * factor, self.pool)
        fork._prefill = self._prefill.scaled(factor)
        fork.step_s, fork.is_paced, fork.observations = self.step_s, self.is_paced, self.observations
        return fork

    def expected_s(self, starts: float, tokens: int) -> float:
        """Seconds in which so many tokens are prefilled, of which `starts` times from idleness; above 0."""
        return starts * self.delay_s + tokens * self.token_s + SHORTEST_S

    def learn(self, starts: float, tokens: int, took_s: float) -> None:
        """Notes that `tokens` were prefilled in `took_s` seconds, of which `starts` times from idleness."""
        fit = self._prefill
        fit.learn(starts, tokens * 1e-3, took_s)
        self.observations += 1
        self.delay_s, self.token_s = fit.each_s, fit.per_s * 1e-3
        self.pool.learn_prefill(self.token_s)

    def learn_step(self, step_s: float) -> None:
        """Notes the mean time between two tokens of a stream that was served to its end."""
        known = self.step_s
        if known <= 0.0:
            self.step_s = step_s
        else:
            seen = min(max(step_s, known / LARGEST_SURPRISE), known * LARGEST_SURPRISE)
            self.step_s = known + STEP_SHARE * (seen - known)

    def learn_pace(self, step_s: float, decoding: float, prefill_s: float) -> None:
        """The same, where so many sequences were decoded in its steps on average, itself included, and so
        many seconds of each step went to prefill."""
        self.learn_step(step_s)
        self.is_paced = True
        self.pool.learn_pace((step_s - prefill_s) / self.token_s, decoding)
