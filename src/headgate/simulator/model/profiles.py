"""Named engines: constants that were published or follow from published ones.

`7b-a100` is the fit of the Gateway API Inference Extension's first simulator. The others start from the ready
latency profiles of llm-d's simulator (time per prompt token, inter-token latency L when alone, load factor F
at a full batch): prefill per token as given, per sequence L x (F - 1) / 255 for a batch of 256, and the base
is what remains of L. The term per KV token is bytes of KV per token over memory bandwidth; KV blocks are what
90 % of the memory leaves beside 16-bit weights.
"""

import msgspec

from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.costs import StepCosts


class EngineProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A named starting point; every number in it can be overridden."""

    name: str
    description: str
    config: EngineConfig


_ALL = (
    EngineProfile(
        name="7b-a100",
        description="Llama-2-7B class on one A100, as fitted from measurements",
        config=EngineConfig(
            costs=StepCosts(
                base_s=0.014,
                per_decode_sequence_s=1.0265e-4,
                per_kv_token_s=5.353e-7,
                per_prefill_token_s=6.769e-5,
            ),
            max_model_len=4096,
            kv_blocks=2810,
        ),
    ),
    EngineProfile(
        name="8b-h100",
        description="8B class on one H100: L 12 ms, F 2, 128 KB of KV a token",
        config=EngineConfig(
            costs=StepCosts(
                base_s=0.01195,
                per_decode_sequence_s=4.7e-5,
                per_kv_token_s=3.9e-8,
                per_prefill_token_s=2.5e-4,
            ),
            kv_blocks=27_000,
        ),
    ),
    EngineProfile(
        name="70b-8xh100",
        description="70B class on eight H100: L 25 ms, F 3, 320 KB of KV a token",
        config=EngineConfig(
            costs=StepCosts(
                base_s=0.0248,
                per_decode_sequence_s=1.96e-4,
                per_kv_token_s=1.2e-8,
                per_prefill_token_s=5e-4,
            ),
            kv_blocks=85_000,
        ),
    ),
    EngineProfile(
        name="3b-l40s",
        description="3B class on one L40S: L 15 ms, F 1.5, 112 KB of KV a token",
        config=EngineConfig(
            costs=StepCosts(
                base_s=0.01497,
                per_decode_sequence_s=2.9e-5,
                per_kv_token_s=1.33e-7,
                per_prefill_token_s=3.5e-4,
            ),
            kv_blocks=20_000,
        ),
    ),
    EngineProfile(
        name="fast",
        description="steps that take no time, for tests of what stands in front",
        config=EngineConfig(
            costs=StepCosts(base_s=0, per_decode_sequence_s=0, per_kv_token_s=0, per_prefill_token_s=0),
            max_num_seqs=4096,
            max_model_len=131_072,
            prefill_budget_tokens=1_048_576,
            kv_blocks=1_048_576,
            max_waiting=10_000,
        ),
    ),
)

PROFILES: dict[str, EngineProfile] = {profile.name: profile for profile in _ALL}
DEFAULT_PROFILE = "8b-h100"
