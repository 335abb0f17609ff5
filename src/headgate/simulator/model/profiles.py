"""Named engines: constants that were published, or derived from published ones.

`7b-a100` is the fit of the Gateway API Inference Extension's first simulator. The others start from latency
profiles like those that llm-d's simulator ships: an overhead O of each first token, a time per prompt token,
the inter-token latency L of a lone request, and a load factor F at a full batch. Prefill per token is as
given; per sequence it is L x (F - 1) / 255 for a batch of 256, and the base is the rest of L; the rest of O
is charged for each start. The term per KV token is KV bytes per token over memory bandwidth; KV blocks are
what 90 % of the memory leaves beside the weights, with 16-bit weights unless stated otherwise. O and L of
engines without a published profile are the middle of their published ranges.

Power is the board limit from its data sheet, idle power about a tenth of that, and prices are round numbers
for an hour on demand: estimates, to be replaced by your own.
"""

import msgspec

from headgate.simulator.model.config import EngineConfig, StepCosts


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
            power_w=400,
            idle_power_w=60,
            dollars_per_hour=2,
            costs=StepCosts(
                base_s=0.014,
                per_decode_sequence_s=1.0265e-4,
                per_kv_token_s=5.353e-7,
                per_prefill_token_s=6.769e-5,
                prefill_base_s=0.01969,
                least_prefill_s=0.04,
            ),
            max_model_len=4096,
            kv_blocks=2810,
            kv_bytes_per_token=524_288,
        ),
    ),
    EngineProfile(
        name="8b-h100",
        description="8B class on one H100: L 12 ms, F 2, 128 KB of KV a token",
        config=EngineConfig(
            power_w=700,
            idle_power_w=80,
            dollars_per_hour=3,
            costs=StepCosts(
                base_s=0.01195,
                per_decode_sequence_s=4.7e-5,
                per_kv_token_s=3.9e-8,
                per_prefill_token_s=2.5e-4,
                per_start_s=0.01805,
            ),
            kv_blocks=27_000,
        ),
    ),
    EngineProfile(
        name="70b-8xh100",
        description="70B class on eight H100: L 25 ms, F 3, 320 KB of KV a token",
        config=EngineConfig(
            power_w=5600,
            idle_power_w=640,
            dollars_per_hour=24,
            costs=StepCosts(
                base_s=0.0248,
                per_decode_sequence_s=1.96e-4,
                per_kv_token_s=1.2e-8,
                per_prefill_token_s=5e-4,
                per_start_s=0.0552,
            ),
            kv_blocks=85_000,
            kv_bytes_per_token=327_680,
        ),
    ),
    EngineProfile(
        name="3b-l40s",
        description="3B class on one L40S: L 15 ms, F 1.5, 112 KB of KV a token",
        config=EngineConfig(
            power_w=350,
            idle_power_w=35,
            dollars_per_hour=1,
            costs=StepCosts(
                base_s=0.01497,
                per_decode_sequence_s=2.9e-5,
                per_kv_token_s=1.33e-7,
                per_prefill_token_s=3.5e-4,
                per_start_s=0.00503,
            ),
            kv_blocks=20_000,
            kv_bytes_per_token=114_688,
        ),
    ),
    EngineProfile(
        name="13b-h100",
        description="13B class on one H100: L 18 ms, F 2, 800 KB of KV a token",
        config=EngineConfig(
            power_w=700,
            idle_power_w=80,
            dollars_per_hour=3,
            costs=StepCosts(
                base_s=0.01793,
                per_decode_sequence_s=7.1e-5,
                per_kv_token_s=2.45e-7,
                per_prefill_token_s=4e-4,
                per_start_s=0.04,
            ),
            max_model_len=4096,
            kv_blocks=3500,
            kv_bytes_per_token=819_200,
        ),
    ),
    EngineProfile(
        name="8b-l40s",
        description="8B class on one L40S: L 30 ms, F 2, 128 KB of KV a token",
        config=EngineConfig(
            power_w=350,
            idle_power_w=35,
            dollars_per_hour=1,
            costs=StepCosts(
                base_s=0.02988,
                per_decode_sequence_s=1.18e-4,
                per_kv_token_s=1.52e-7,
                per_prefill_token_s=6e-4,
                per_start_s=0.045,
            ),
            kv_blocks=12_900,
        ),
    ),
    EngineProfile(
        name="8b-h100-fp8",
        description="8B class with 8-bit weights on one H100: L 6 ms, F 2, 128 KB of KV a token",
        config=EngineConfig(
            power_w=700,
            idle_power_w=80,
            dollars_per_hour=3,
            costs=StepCosts(
                base_s=0.00598,
                per_decode_sequence_s=2.35e-5,
                per_kv_token_s=3.9e-8,
                per_prefill_token_s=2.5e-4,
                per_start_s=0.02402,
            ),
            kv_blocks=30_500,
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
