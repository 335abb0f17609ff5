"""A replica in a discrete-event simulation: the simulated engine, step by step, with random arrivals.

The engine has its own model of time: each step decodes a token of all running requests and prefills prompts,
which all of them wait for. Of a profile, alpha is the time of a step, beta is added for each request, and
delta for each token of a prompt. What gamma exceeds alpha by is spent before the batch and delays no others.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from headgate.planning import Infeasible, Profile, Replica, Targets, size
from headgate.planning.sizing import fewest
from headgate.simulator.model.config import EngineConfig, StepCosts
from headgate.simulator.model.engine import Engine
from headgate.simulator.model.request import RequestId, SimulatedRequest
from headgate.simulator.model.virtual import Submission, run_virtual

__all__ = ["CASES", "Case", "Confirmed", "Seen", "confirm", "engine_of", "seen"]

WARM_UP: Final = 0.05
"""Share of the requests that are not counted: the queue begins empty."""


class Case(NamedTuple):
    """A profile with targets, and rates to plan for."""

    name: str
    profile: tuple[float, float, float, float]
    """Alpha, beta, gamma, delta."""
    batch: int
    prompt: int
    response: int
    ttft_ms: float
    itl_ms: float
    per_minute: tuple[float, ...]

    @property
    def replica(self) -> Replica:
        names = ("alpha_ms", "beta_ms", "gamma_ms", "delta_ms")
        return Replica(
            profile=Profile(**dict(zip(names, self.profile, strict=True))),
            input_tokens=self.prompt,
            output_tokens=self.response,
            max_batch=self.batch,
            max_queue=10 * self.batch,
        )

    @property
    def targets(self) -> Targets:
        return Targets(ttft_ms=self.ttft_ms, itl_ms=self.itl_ms)


A100 = (20.58, 0.41, 5.2, 0.1)
H100 = (6.958, 0.042, 5.2, 0.1)
CASES: Final = (
    Case("B", A100, 4, 0, 178, 500, 24, (20, 41.32, 60, 120)),
    Case("B2", A100, 4, 128, 128, 500, 24, (60, 240)),
    Case("D1", H100, 512, 0, 512, 1000, 9, (480, 960, 1440)),
    Case("D2", H100, 512, 128, 512, 1000, 9, (480, 960, 1440)),
    Case("D3", (22.619, 0.181, 226.19, 0.018), 512, 128, 512, 1000, 30, (480,)),
    Case("E", (20.58, 0.41, 20.58, 0.041), 4, 100, 128, 500, 24, (30, 60, 120, 300)),
    Case("F", (20.28, 0.72, 0, 0), 4, 0, 200, 500, 80, (40, 240)),
    Case("T1", (5, 2, 10, 1.5), 16, 100, 200, 2000, 500, (30, 60, 90, 120, 150, 360)),
    Case("T2", (5, 2, 10, 1.5), 12, 100, 200, 2000, 500, (60, 360)),
)


class Seen(NamedTuple):
    """What requests of one replica experienced."""

    in_time: float
    """Share with the first token within the target; rejected ones are not."""
    itl_ms: float
    """The mean time between tokens."""


class Confirmed(NamedTuple):
    planned: int
    seen: Seen
    least: int
    """Replicas that would do."""


def engine_of(case: Case) -> EngineConfig:
    alpha, beta, _, delta = (each / 1000 for each in case.profile)
    return EngineConfig(
        costs=StepCosts(
            base_s=alpha, per_decode_sequence_s=beta, per_kv_token_s=0.0, per_prefill_token_s=delta
        ),
        max_num_seqs=case.batch,
        max_model_len=131_072,
        prefill_budget_tokens=8192,
        kv_blocks=4_000_000,
        prefix_cache=False,
        kv_events=False,
        max_waiting=10 * case.batch,
    )


def seen(
    case: Case,
    rate_per_s: float,
    requests: int,
    *,
    is_random: bool = False,
    engine: EngineConfig | None = None,
    seed: int = 1,
) -> Seen:
    """Requests arrive at random; with `is_random`, their responses have exponential lengths."""
    rng, now = random.Random(seed), 0.0
    events = []
    for number in range(requests):
        now += rng.expovariate(rate_per_s)
        length = max(1, round(rng.expovariate(1 / case.response))) if is_random else case.response
        request = SimulatedRequest(
            request_id=RequestId(str(number)), prompt_tokens=max(case.prompt, 1), output_tokens=length
        )
        events.append(Submission(now, request))
    run = run_virtual(Engine(engine or engine_of(case)), events)
    alpha, _, gamma, _ = case.profile
    before_ms = max(gamma - alpha, 0.0) if case.prompt and engine is None else 0.0
    first = int(requests * WARM_UP)
    counted = [each for each in run.finished if int(each.request_id) >= first]
    in_time = sum(1000 * (each.ttft_s or 0.0) + before_ms <= case.ttft_ms for each in counted)
    paced = [each for each in counted if each.tpot_s is not None]
    gaps = sum(each.output_tokens - 1 for each in paced)
    itl_s = sum((each.tpot_s or 0.0) * (each.output_tokens - 1) for each in paced) / max(gaps, 1)
    refused = sum(int(each) >= first for each in run.refused)
    return Seen(in_time / max(len(counted) + refused, 1), 1000 * itl_s)


def confirm(case: Case, per_minute: float, requests: int, *, engine: EngineConfig | None = None) -> Confirmed:
    """Plan replicas for a rate, and look for fewer that would do. Arrivals are spread at random.

    Raises ValueError if the targets cannot be met.
    """
    sized = size(case.replica, case.targets)
    if isinstance(sized, Infeasible):
        raise ValueError(sized.message)
    rate_per_s = per_minute / 60
    planned = fewest(rate_per_s, sized.capacity_per_s)
    found = seen(case, rate_per_s / planned, requests, engine=engine)
    least = planned
    while least > 1 and would_do(case, seen(case, rate_per_s / (least - 1), requests, engine=engine)):
        least -= 1
    return Confirmed(planned, found, least)


def would_do(case: Case, found: Seen) -> bool:
    share = (case.targets.percentile or 0.0) / 100
    return found.in_time >= share and (not case.itl_ms or found.itl_ms <= case.itl_ms)
