"""The terms of a predicted first token."""

from __future__ import annotations

import msgspec


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until a first token, by cause."""

    queue_s: float
    """Until the endpoint starts on the request."""
    prefill_s: float = 0.0
    """Prefill of the prompt, with the delay of an idle endpoint."""
    beside_s: float = 0.0
    """Slowdown by sequences that decode meanwhile."""
    adapter_s: float = 0.0
    """Load of the request's adapter."""
    handover_s: float = 0.0
    """Fetch of a KV cache that another endpoint prefilled."""

    @property
    def first_token_s(self) -> float:
        return self.queue_s + self.prefill_s + self.beside_s + self.adapter_s + self.handover_s

    def in_words(self) -> str:
        """The terms that are not negligible."""
        terms = (
            ("queue", self.queue_s),
            ("prefill", self.prefill_s),
            ("beside others", self.beside_s),
            ("adapter", self.adapter_s),
            ("handover", self.handover_s),
        )
        return (
            " + ".join(f"{name} {seconds:.3f}" for name, seconds in terms if seconds >= 0.0005) or "nothing"
        )
