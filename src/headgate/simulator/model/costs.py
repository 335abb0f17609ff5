"""What one engine step costs in time."""

import msgspec


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The four constants of the step time, in float seconds; nothing is rounded to milliseconds.

    The linear form is the one that the Gateway API Inference Extension's first simulator fitted to measured
    decode steps (`tools/simulations/llm_ig_simulation` at v0.3: a base, a term per sequence, a term per token
    in the KV cache), with prefill charged per token in the same step, as chunked prefill batches both.
    """

    base_s: float
    """Reading the weights once and launching the step."""
    per_decode_sequence_s: float
    """For each sequence that decodes one token in this step."""
    per_kv_token_s: float
    """For each token of context that those sequences read from the KV cache."""
    per_prefill_token_s: float
    """For each prompt token that is prefilled in this step."""

    def step_seconds(self, *, decode_sequences: int, kv_tokens: int, prefill_tokens: int) -> float:
        """base + sequences x b + KV tokens x c + prefill tokens x d."""
        return (
            self.base_s
            + decode_sequences * self.per_decode_sequence_s
            + kv_tokens * self.per_kv_token_s
            + prefill_tokens * self.per_prefill_token_s
        )
