"""Beside long prompts nothing waits in engines for much longer than the queue's target, in virtual time."""

import random

import pytest

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.capacity.predicted import TARGET_S
from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import EngineConfig, StepCosts
from headgate.traffic.traces import TimedRequest

TOKEN_S = 1 / 16_000
STEP_TOKENS = 2048
ENGINE = EngineConfig(
    costs=StepCosts(
        base_s=0.004, per_decode_sequence_s=5e-5, per_kv_token_s=0.0, per_prefill_token_s=TOKEN_S
    ),
    max_model_len=131_072,
    prefill_budget_tokens=STEP_TOKENS,
    kv_blocks=25_000,
)
FLOW = FlowSettings(ttl_s=0, max_requests=0, max_bytes=0)


def traffic(seed: int):
    """More than four engines do, for half a minute: seven tenants with short prompts, one with long ones."""
    rng, asked = random.Random(seed), []
    for tenant, per_s, tokens in (*((f"short-{at}", 1.5, 4_000) for at in range(7)), ("long", 1.8, 32_000)):
        at_s = rng.expovariate(per_s)
        while at_s < 30.0:
            prompt_tokens = round(tokens * rng.uniform(0.5, 1.5))
            asked.append(
                TimedRequest(at_s=at_s, prompt_tokens=prompt_tokens, output_tokens=32, tenant=tenant)
            )
            at_s += rng.expovariate(per_s)
    return sorted(asked, key=lambda each: each.at_s)


@pytest.mark.parametrize("seed", range(1, 5))
def test_long_prompts_do_not_queue_behind_one_another_in_an_engine(seed):
    """Of equal engines none looks so fast that it would be worth waiting for: who is sent starts soon."""
    prefixes = PrefixIndex()
    fleet = FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=4),), scrape_s=1.0, flow=FLOW)
    run = run_fleet(
        traffic(seed), fleet, scheduling.PredictedFirstToken(prefixes), seed=seed, prefixes=prefixes
    )
    waits_s = [record.started_s - record.arrived_s - record.queued_s for record in run.records]
    assert max(waits_s) < TARGET_S + 3 * STEP_TOKENS * TOKEN_S
