"""What one engine step costs in time."""

import msgspec


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of the step time, in float seconds; nothing is rounded to milliseconds.

    The linear form is the one that the Gateway API Inference Extension's first simulator fitted to measured
    steps (`tools/simulations/llm_ig_simulation` at v0.3: a base, a term per sequence, a term per token in the
    KV cache; for prefill a base of its own, a term per token and a floor). There a step prefills or decodes;
    here one step does both, as chunked prefill batches them, and pays the larger base.
    """

    base_s: float
    """Reading the weights once and launching the step."""
    per_decode_sequence_s: float
    """For each sequence that decodes one token in this step."""
    per_kv_token_s: float
    """For each token of context that those sequences read from the KV cache."""
    per_prefill_token_s: float
    """For each prompt token that is prefilled in this step."""
    prefill_base_s: float = 0.0
    """What takes the place of `base_s` in a step that prefills, where it is more."""
    least_prefill_s: float = 0.0
    """A step that prefills takes at least this, before what its decoding adds."""
    per_start_s: float = 0.0
    """For each request that starts in this step: what its first token costs whatever its length."""

    def step_seconds(
        self, *, decode_sequences: int, kv_tokens: int, prefill_tokens: int, starts: int = 0
    ) -> float:
        """The part that does not change from one like step to the next, + KV tokens x c."""
        return (
            self.fixed_seconds(
                decode_sequences=decode_sequences, prefill_tokens=prefill_tokens, starts=starts
            )
            + kv_tokens * self.per_kv_token_s
        )

    def fixed_seconds(self, *, decode_sequences: int, prefill_tokens: int, starts: int) -> float:
        """base + prefill tokens x d, and at least the floor; + sequences x b + starts x e."""
        if prefill_tokens:
            base_s = max(self.base_s, self.prefill_base_s) + prefill_tokens * self.per_prefill_token_s
            base_s = max(base_s, self.least_prefill_s)
        else:
            base_s = self.base_s
        return base_s + decode_sequences * self.per_decode_sequence_s + starts * self.per_start_s
