"""What a predicted first token is made of."""

from __future__ import annotations

import msgspec


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until a first token, by what takes them."""

    queue_s: float
    """Until the endpoint takes the request up."""
    prefill_s: float = 0.0
    """For the prompt, with the delay of an idle endpoint."""
    beside_s: float = 0.0
    """By which sequences that decode meanwhile make that longer."""
    adapter_s: float = 0.0
    """For the request's adapter, where it has to be loaded."""
    handover_s: float = 0.0
    """For the KV cache of a prompt that another endpoint prefilled."""

    @property
    def first_token_s(self) -> float:
        return self.queue_s + self.prefill_s + self.beside_s + self.adapter_s + self.handover_s

    def in_words(self) -> str:
        """The terms that count for something."""
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
