"""Fleets whose step times add up in the head: a step takes 1 s and 0.01 s for each prompt token."""

from collections.abc import Callable

import pytest

from headgate.simulator.fleet import EngineGroup, FleetDescription
from headgate.simulator.model import EngineConfig, EngineStatistics, StepCosts
from headgate.traffic.traces import TimedRequest

COSTS = StepCosts(base_s=1.0, per_decode_sequence_s=0.0, per_kv_token_s=0.0, per_prefill_token_s=0.01)


@pytest.fixture
def engine_of() -> Callable[..., EngineConfig]:
    """Makes engines with room for everything, but for what is said by keyword."""

    def make(**overrides: object) -> EngineConfig:
        limits = {
            "costs": COSTS,
            "max_num_seqs": 64,
            "max_model_len": 4000,
            "prefill_budget_tokens": 4000,
            "kv_blocks": 1000,
            "block_size": 10,
        }
        return EngineConfig(**{**limits, **overrides})

    return make


@pytest.fixture
def fleet_of(engine_of) -> Callable[..., FleetDescription]:
    """Makes fleets of so many engines `e-0`, `e-1`, ...; more by keyword."""

    def make(count: int = 2, engine: EngineConfig | None = None, **more: object) -> FleetDescription:
        group = EngineGroup(name="e", engine=engine or engine_of(), count=count)
        return FleetDescription(**{"groups": (group,), **more})

    return make


@pytest.fixture
def timed() -> Callable[..., TimedRequest]:
    """Makes requests: when, prompt tokens, output tokens; blocks of 10 tokens by `prefix`."""

    def make(at_s: float, prompt_tokens: int = 100, output_tokens: int = 3, **more: object) -> TimedRequest:
        block_tokens = 10 if "prefix" in more else 0
        return TimedRequest(
            at_s=at_s,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            block_tokens=block_tokens,
            **more,
        )

    return make


@pytest.fixture
def idle() -> EngineStatistics:
    """A reading of an engine that has done nothing."""
    return EngineStatistics(**dict.fromkeys(EngineStatistics.__struct_fields__, 0))
