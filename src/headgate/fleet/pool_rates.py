"""What the endpoints of a pool learn together: what is rarely seen on one of them, or hard to tell there.

How long it takes to fetch what a request needs (an adapter's weights, a prompt's KV cache) depends on the
network and on storage that they share. What it costs a step that sequences are decoded in it is told from
streams beside few and beside many others, which are seen sooner on several endpoints; it is counted in tokens
of prefill, so that an endpoint that is twice as fast is so in this as well. How fast they prefill on average
says what their time is worth where they differ.
"""

from __future__ import annotations

from headgate.fleet.fit import LARGEST_SURPRISE, SHORTEST_S, Fit

PRIOR_TOKEN_S = 1 / 10_000
"""A guess, before anything is known: between a small model on a large GPU and the reverse."""
MAX_PREFILLS = 32
"""The mean rate of the pool is that of about so many observations of prefill."""
PRIOR_ADAPTER_S = 0.3
"""A guess: an adapter of some hundred MB is read from a disk in a second, from the host's memory at once."""
ADAPTER_SHARE = 1 / 8
"""How far one load moves what is expected of the next."""
PRIOR_HANDOVER_S = 0.02
"""A guess of what a handover takes besides its tokens: a round trip, and the step that it waits for."""
PRIOR_HANDOVER_TOKEN_S = 6e-6
"""A guess for each token: of an 8B model it is 128 KB, which at 200 Gbit/s takes 5 µs."""
PRIOR_BESIDE_TOKENS = 1.2
"""A guess: a sequence that is decoded computes one token, and reads its KV cache besides."""
MIN_BESIDE_TOKENS, MAX_BESIDE_TOKENS = 0.1, 20.0
PACE_HELD = 0.05
"""A step varies by a third of what it takes anyway, and the guess may be off by as much again and more."""
PACE_KEPT = 0.995
"""The number of sequences changes slowly: their cost is told from more streams than the rate of prefill is
from prompts."""


class PoolRates:
    """What was learned of all of it."""

    __slots__ = ("_handover", "_pace", "_prefills", "adapter_s", "adapters", "beside_tokens", "token_s")

    def __init__(self, token_s: float = PRIOR_TOKEN_S) -> None:
        self.token_s = token_s
        """Seconds for each token of a prompt, on average: each endpoint counts by how much it prefills."""
        self.adapter_s = PRIOR_ADAPTER_S
        """Seconds by which a first token is later that has to wait for its adapter."""
        self.adapters = 0
        """Observations of that."""
        self.beside_tokens = PRIOR_BESIDE_TOKENS
        """A sequence that is decoded makes a step as much longer as so many prompt tokens would."""
        self._prefills = 0
        self._handover = Fit(PRIOR_HANDOVER_S, PRIOR_HANDOVER_TOKEN_S * 1e3)
        self._pace: Fit | None = None

    @property
    def handovers(self) -> int:
        """Observations of KV caches that were handed over."""
        return self._handover.observations

    @property
    def handover_token_s(self) -> float:
        """Seconds for each token of a KV cache that comes from another endpoint."""
        return self._handover.per_s * 1e-3

    def handover_s(self, tokens: float) -> float:
        """Seconds from the end of a prefill elsewhere to the first token, where so many tokens of KV cache
        come from there."""
        return self._handover.each_s + tokens * self._handover.per_s * 1e-3

    def learn_prefill(self, token_s: float) -> None:
        """An endpoint has prefilled some prompts, each token of which takes it so long."""
        self._prefills = min(self._prefills + 1, MAX_PREFILLS)
        self.token_s += (token_s - self.token_s) / self._prefills

    def learn_handover(self, tokens: float, took_s: float) -> None:
        """A prompt was handed over, and has its first token."""
        self._handover.learn(1.0, tokens * 1e-3, took_s)

    def learn_adapter(self, later_s: float) -> None:
        """A first token that waited for its adapter was later by so much than without."""
        known = self.adapter_s
        seen = min(max(later_s, known / LARGEST_SURPRISE, SHORTEST_S), known * LARGEST_SURPRISE)
        self.adapter_s = known + ADAPTER_SHARE * (seen - known)
        self.adapters += 1

    def learn_pace(self, step_tokens: float, decoding: float) -> None:
        """The steps of a stream, in which so many sequences were decoded on average, itself included, took as
        long as so many tokens of prefill do: step = what it takes anyway + sequences * beside."""
        step_tokens = max(step_tokens, 0.0)  # less where prefill was taken for longer than it was
        if self._pace is None:
            alone = max(step_tokens - decoding * PRIOR_BESIDE_TOKENS, 0.5 * step_tokens)
            self._pace = Fit(alone, PRIOR_BESIDE_TOKENS, PACE_KEPT, held=PACE_HELD)
        self._pace.learn(1.0, decoding, step_tokens)
        self.beside_tokens = min(max(self._pace.per_s, MIN_BESIDE_TOKENS), MAX_BESIDE_TOKENS)
