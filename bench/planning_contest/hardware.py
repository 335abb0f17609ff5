"""The variants of the contest: one model of 8B on three kinds of accelerators, and what is known of them.

The engines are those of `headgate.simulator.model.profiles`. That on an A100 is not among them: it has the
steps of the H100's by their ratios of memory bandwidth (3.35 and 2.0 TB/s) and of dense FP16 operations (989
and 312 TFLOPS), with the same memory. Costs are those of llm-d's chart, in cents per hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.planning import Profile
from headgate.planning.system import DecodeParms, Performance, PrefillParms
from headgate.simulator.autoscaling import Work
from headgate.simulator.model import EngineConfig
from headgate.simulator.model.config import StepCosts
from headgate.simulator.model.profiles import PROFILES

__all__ = ["VARIANTS", "Variant", "performance"]

_BANDWIDTH: Final = 3.35 / 2.0
_OPERATIONS: Final = 989 / 312


class Variant(NamedTuple):
    """A way to serve a model. A replica has one accelerator."""

    name: str
    cost: float
    """Cents per hour of a replica."""
    engine: EngineConfig


def _a100() -> EngineConfig:
    engine = PROFILES["8b-h100"].config
    costs = engine.costs
    return msgspec.structs.replace(
        engine,
        costs=StepCosts(
            base_s=costs.base_s * _BANDWIDTH,
            per_decode_sequence_s=costs.per_decode_sequence_s * _BANDWIDTH,
            per_kv_token_s=costs.per_kv_token_s * _BANDWIDTH,
            per_prefill_token_s=costs.per_prefill_token_s * _OPERATIONS,
            per_start_s=costs.per_start_s * _BANDWIDTH,
        ),
    )


VARIANTS: Final = (
    Variant("H100", 100.0, PROFILES["8b-h100"].config),
    Variant("A100", 40.0, _a100()),
    Variant("L40S", 32.0, PROFILES["8b-l40s"].config),
)


def performance(model: str, variant: Variant, works: Sequence[Work]) -> Performance:
    """The profile that somebody would have measured with the mean request of a trace; it is the same for
    all planners, and fixed."""
    prompt = sum(each.uncached_tokens for each in works) / len(works)
    response = sum(each.output_tokens for each in works) / len(works)
    profile = _profile(variant.engine, prompt, response)
    fits = int(variant.engine.kv_blocks * variant.engine.block_size / (prompt + response))
    return Performance(
        name=model,
        acc=variant.name,
        max_batch_size=max(1, min(variant.engine.max_num_seqs, fits)),
        decode_parms=DecodeParms(alpha=profile.alpha_ms, beta=profile.beta_ms),
        prefill_parms=PrefillParms(gamma=profile.gamma_ms, delta=profile.delta_ms),
    )


def _profile(engine: EngineConfig, prompt: float, response: float) -> Profile:
    costs, context = engine.costs, prompt + response / 2
    return Profile(
        alpha_ms=1000 * costs.base_s,
        beta_ms=1000 * (costs.per_decode_sequence_s + costs.per_kv_token_s * context),
        gamma_ms=1000 * costs.base_s,
        delta_ms=1000 * (costs.per_prefill_token_s + costs.per_start_s / prompt),
    )
