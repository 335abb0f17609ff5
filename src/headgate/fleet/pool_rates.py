"""Rates that the endpoints of a pool learn together, because one endpoint alone sees too little.

The time to fetch an adapter's weights or a KV cache depends on the network and storage that they share. What
a decoding sequence adds to a step is learned from streams with few and with many others beside them, which
several endpoints provide sooner. It is measured in tokens of prefill, so it scales with an endpoint's speed.
The mean prefill rate says what their time is worth where they differ.
"""

from __future__ import annotations

from typing import Final

from headgate.fleet.fit import LARGEST_SURPRISE, SHORTEST_S, Fit

PRIOR_TOKEN_S: Final = 1 / 10_000
"""Prior, between a small model on a large GPU and the reverse."""
MAX_PREFILLS: Final = 32
"""The pool's mean rate averages about this many observations of prefill."""
PRIOR_ADAPTER_S: Final = 0.3
"""Prior: an adapter of some hundred MB loads in a second from disk, and at once from host memory."""
ADAPTER_SHARE: Final = 1 / 8
"""Weight of one load in the expected time of the next."""
PRIOR_HANDOVER_S: Final = 0.02
"""Prior of a handover besides its tokens: a round trip, and the step that it waits for."""
PRIOR_HANDOVER_TOKEN_S: Final = 6e-6
"""Prior per token: 128 KB for an 8B model, which takes 5 µs at 200 Gbit/s."""
PRIOR_BESIDE_TOKENS: Final = 1.2
"""Prior: a decoding sequence computes one token, and reads its KV cache."""
MIN_BESIDE_TOKENS, MAX_BESIDE_TOKENS = 0.1, 20.0
PACE_HELD: Final = 0.05
"""Steps vary by a third, and the prior may be off by its own size and more."""
PACE_KEPT: Final = 0.995
"""The number of sequences changes slowly, so their cost needs more streams than the prefill rate needs
prompts."""


class PoolRates:
    """Rates of one pool."""

    __slots__ = ("_handover", "_pace", "_prefills", "adapter_s", "adapters", "beside_tokens", "token_s")

    def __init__(self, token_s: float = PRIOR_TOKEN_S) -> None:
        self.token_s = token_s
        """Mean seconds per prompt token, weighted by how much each endpoint prefills."""
        self.adapter_s = PRIOR_ADAPTER_S
        """Delay of a first token that waits for its adapter, in seconds."""
        self.adapters = 0
        """Observed adapter loads."""
        self.beside_tokens = PRIOR_BESIDE_TOKENS
        """Prompt tokens by which one decoding sequence lengthens a step."""
        self._prefills = 0
        self._handover = Fit(PRIOR_HANDOVER_S, PRIOR_HANDOVER_TOKEN_S * 1e3)
        self._pace: Fit | None = None

    @property
    def alone_tokens(self) -> float:
        """Prompt tokens that take as long as a step without any sequence; 0 until streams have shown it."""
        return max(self._pace.each_s, 0.0) if self._pace is not None else 0.0

    @property
    def handovers(self) -> int:
        """Observed handovers of KV caches."""
        return self._handover.observations

    @property
    def handover_token_s(self) -> float:
        """Seconds per token of a KV cache from another endpoint."""
        return self._handover.per_s * 1e-3

    def handover_s(self, tokens: float) -> float:
        """Seconds from the end of a prefill elsewhere to the first token, with `tokens` of KV cache to
        fetch."""
        return self._handover.each_s + tokens * self._handover.per_s * 1e-3

    def learn_prefill(self, token_s: float) -> None:
        """Learn from prompts that an endpoint prefilled at this rate."""
        self._prefills = min(self._prefills + 1, MAX_PREFILLS)
        self.token_s += (token_s - self.token_s) / self._prefills

    def learn_handover(self, tokens: float, took_s: float) -> None:
        """Learn from a prompt that was handed over and has its first token."""
        self._handover.learn(1.0, tokens * 1e-3, took_s)

    def learn_adapter(self, later_s: float) -> None:
        """Learn from a first token that came `later_s` later because it waited for its adapter."""
        known = self.adapter_s
        seen = min(max(later_s, known / LARGEST_SURPRISE, SHORTEST_S), known * LARGEST_SURPRISE)
        self.adapter_s = known + ADAPTER_SHARE * (seen - known)
        self.adapters += 1

    def learn_pace(self, step_tokens: float, decoding: float) -> None:
        """Learn from a stream whose mean step took as long as `step_tokens` of prefill, with `decoding`
        sequences on average, itself included: step = base time + sequences * beside."""
        step_tokens = max(step_tokens, 0.0)  # negative if prefill was overestimated
        if self._pace is None:
            alone = max(step_tokens - decoding * PRIOR_BESIDE_TOKENS, 0.5 * step_tokens)
            self._pace = Fit(alone, PRIOR_BESIDE_TOKENS, PACE_KEPT, held=PACE_HELD)
        self._pace.learn(1.0, decoding, step_tokens)
        self.beside_tokens = min(max(self._pace.per_s, MIN_BESIDE_TOKENS), MAX_BESIDE_TOKENS)
