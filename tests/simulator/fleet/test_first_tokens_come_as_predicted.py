"""What the default policy predicts of first tokens is near to what stepping engines take, in virtual time."""

import random
import statistics

import msgspec

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model.profiles import PROFILES
from headgate.traffic.traces import in_turn
from headgate.traffic.workloads.patterns import Chat, Lora

ENGINE = msgspec.structs.replace(PROFILES["8b-h100"].config, prefill_budget_tokens=2048, max_model_len=16_000)
LEARNED_AFTER = 200
"""Requests, before which predictions are not looked at."""


def run(told, fleet, *, keeps_adapters=False):
    prefixes = PrefixIndex()
    policy = scheduling.PredictedFirstToken(prefixes)
    if keeps_adapters:
        policy = scheduling.WithAdapters(policy)
    return run_fleet(told, fleet, policy, seed=1, prefixes=prefixes)


def errors(run):
    """How far each was off, as a share of what it took."""
    known = [record for record in run.records[LEARNED_AFTER:] if record.first_token_s is not None]
    return [abs(record.expected_first_token_s / record.ttft_s - 1.0) for record in known]


def test_of_questions_on_busy_engines():
    """Prompts of all lengths behind one system prompt, beside answers that are generated."""
    told = Chat(requests=900, rate=12.0, turns=1.0, user_tokens=900).generate(random.Random(1))
    off = errors(run(told, FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=4),))))
    assert statistics.median(off) < 0.1
    assert statistics.quantiles(off, n=10)[-1] < 0.35


def test_of_conversations_whose_answers_stay_in_the_cache():
    """Each turn has the answer to the one before in it, which its engine need not prefill."""
    told = in_turn(Chat(requests=900, rate=8.0, block_tokens=256).generate(random.Random(1)))
    run_of = run(told, FleetDescription(groups=(EngineGroup(name="e", engine=ENGINE, count=4),)))
    off = errors(run_of)
    assert statistics.median(off) < 0.1
    assert statistics.quantiles(off, n=10)[-1] < 0.3
    known = run_of.records[LEARNED_AFTER:]
    believed, cached = (
        sum(getattr(record, name) for record in known) for name in ("expected_cached_tokens", "cached_tokens")
    )
    assert abs(believed / cached - 1) < 0.02


def test_of_pairs_that_prefill_and_decode():
    """The handover is in it, over a link that takes as long as a third of the prefill. By seed, the median is
    between 0.07 and 0.12."""
    told = Chat(requests=700, rate=4.0, user_tokens=600, system_tokens=50).generate(random.Random(1))
    groups = [EngineGroup(name=role, engine=ENGINE, count=2, role=role) for role in ("prefill", "decode")]
    off = errors(run(told, FleetDescription(groups=tuple(groups), link_bytes_per_s=1.6e9)))
    assert statistics.median(off) < 0.13
    assert statistics.quantiles(off, n=10)[-1] < 0.35


def test_of_requests_that_wait_for_their_adapter():
    """A load takes twice as long as the prompt."""
    engine = msgspec.structs.replace(ENGINE, max_adapters=4, adapter_load_s=0.3)
    fleet = FleetDescription(groups=(EngineGroup(name="e", engine=engine, count=4),), scrape_s=1.0)
    told = Lora(requests=700, rate=10.0).generate(random.Random(1))
    off = errors(run(told, fleet, keeps_adapters=True))
    assert statistics.median(off) < 0.1
    assert statistics.quantiles(off, n=10)[-1] < 0.35
