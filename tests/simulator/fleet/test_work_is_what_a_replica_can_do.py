"""`work_seconds` of a simulated fleet is the share of a replica's time that its requests need."""

import random

import pytest

from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.requests import pool_signals
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.fleet.gateway import SimulatedGateway
from headgate.simulator.model import PROFILES
from headgate.traffic.traces import TimedRequest

CONFIG = PROFILES["8b-h100"].config
SECONDS = 180.0


def needed_s(prompt_tokens: int, output_tokens: int) -> float:
    """Seconds of a replica for one request, by the constants of the engine, with a full batch."""
    costs = CONFIG.costs
    held_tokens = prompt_tokens + output_tokens / 2
    token_s = costs.per_decode_sequence_s + costs.base_s / 256 + costs.per_kv_token_s * held_tokens
    return prompt_tokens * costs.per_prefill_token_s + output_tokens * token_s


@pytest.fixture
def measure(monkeypatch):
    """The mean of the signal under Poisson arrivals, in the second half of the run; and the longest queue."""

    swept = SimulatedGateway.sweep

    def measured(rate: float, prompt_tokens: int, output_tokens: int) -> tuple[float, int]:
        rng = random.Random(1)
        seen, requests, at_s = [], [], 0.0
        while (at_s := at_s + rng.expovariate(rate)) < SECONDS:
            requests.append(TimedRequest(at_s=at_s, prompt_tokens=prompt_tokens, output_tokens=output_tokens))

        def sweep(gateway: SimulatedGateway) -> None:
            now, queue, pool = gateway.timeline.now, gateway._queue, gateway._pool
            swept(gateway)
            if SECONDS / 2 <= now < SECONDS:
                seen.append((pool_signals.work_seconds(pool, queue, now), queue.held))

        monkeypatch.setattr(SimulatedGateway, "sweep", sweep)
        description = FleetDescription(
            groups=(EngineGroup(name="e", engine=CONFIG),), scrape_s=1.0, flow=FlowSettings()
        )
        run_fleet(requests, description, PredictedFirstToken(PrefixIndex()), seed=1)
        return sum(work for work, _ in seen) / len(seen), max(held for _, held in seen)

    return measured


@pytest.mark.parametrize(("prompt_tokens", "output_tokens"), [(500, 200), (200, 600)])
@pytest.mark.parametrize("share", [0.15, 0.3, 0.6])
def test_work_is_in_proportion_to_requests(measure, share, prompt_tokens, output_tokens):
    """Whether prompts or responses are long, at the learned rates."""
    rate = share / needed_s(prompt_tokens, output_tokens)
    work, _ = measure(rate, prompt_tokens, output_tokens)
    assert work == pytest.approx(share, rel=0.4)


def test_more_than_a_replica_can_do_shows_at_once(measure):
    """What waits comes on top of what arrives."""
    work, held = measure(1.5 / needed_s(500, 200), 500, 200)
    assert held > 10
    assert work > 2
