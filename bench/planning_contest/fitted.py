"""Profiles measured on simulated engines, as llm-d's tutorial does: one request at a time, and a full batch.

Between tokens, a full batch waits for the prefills of others, so beta contains them, and delta is small.
Engines have names, or random constants.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headgate.simulator.model.config import EngineConfig, StepCosts
from headgate.simulator.model.engine import Engine
from headgate.simulator.model.profiles import PROFILES
from headgate.simulator.model.request import FinishedRequest, RequestId, SimulatedRequest
from headgate.simulator.model.virtual import Submission, run_virtual
from planning_contest.simulated import Case

__all__ = ["ENGINES", "case_of", "drawn", "engine"]

ENGINES = ("8b-h100", "70b-8xh100", "3b-l40s", "13b-h100", "8b-l40s")
PROMPT, RESPONSE = 512, 128
BATCH = 16
TURNS = 20
"""Requests of each client."""


def engine(name: str) -> EngineConfig:
    """The engine with a bounded batch; prompts differ, and nothing is recorded."""
    return msgspec.structs.replace(
        PROFILES[name].config,
        max_num_seqs=BATCH,
        prefix_cache=False,
        kv_events=False,
        max_waiting=10 * BATCH,
        prefill_budget_tokens=2048,
    )


def case_of(name: str) -> Case:
    """The fitted profile. Targets: a second for the first token, twice the ITL of a lone request."""
    fit = _fit(engine(name), PROMPT, RESPONSE)
    return Case(name, fit.profile, BATCH, PROMPT, RESPONSE, 1000, 2 * fit.lone_itl_ms, (60, 240, 600))


def drawn(seed: int) -> tuple[Case, EngineConfig]:
    """Random constants, requests, targets and rates: from engines that mostly decode to those that mostly
    prefill."""
    rng = random.Random(seed)
    prompt, response = round(_between(rng, 64, 2048)), round(_between(rng, 32, 512))
    costs = StepCosts(
        base_s=_between(rng, 0.006, 0.04),
        per_decode_sequence_s=_between(rng, 2e-5, 1e-3),
        per_kv_token_s=0.0,
        per_prefill_token_s=_between(rng, 5e-5, 6e-4),
        per_start_s=rng.uniform(0, 0.06),
    )
    config = msgspec.structs.replace(
        engine(ENGINES[0]),
        costs=costs,
        max_num_seqs=round(_between(rng, 4, 64)),
        prefill_budget_tokens=rng.choice((512, 2048, 8192)),
        kv_blocks=200_000,
    )
    config = msgspec.structs.replace(config, max_waiting=10 * config.max_num_seqs)
    fit = _fit(config, prompt, response)
    most = 60_000 * config.max_num_seqs / (response * fit.full_itl_ms + fit.lone_ttft_ms)
    case = Case(
        f"random {seed}",
        fit.profile,
        config.max_num_seqs,
        prompt,
        response,
        fit.lone_ttft_ms * rng.uniform(2, 10),
        fit.lone_itl_ms * rng.uniform(1.3, 4),
        (most * rng.uniform(0.5, 1.5), most * rng.uniform(1.5, 3)),
    )
    return case, config


def _between(rng: random.Random, low: float, high: float) -> float:
    """Small numbers are as likely as large ones."""
    return low * (high / low) ** rng.random()


class _Fit(NamedTuple):
    profile: tuple[float, float, float, float]
    """Alpha, beta, gamma, delta."""
    lone_ttft_ms: float
    lone_itl_ms: float
    full_itl_ms: float


def _fit(config: EngineConfig, prompt: int, response: int) -> _Fit:
    batch = config.max_num_seqs
    lone_ttft, lone_itl = _measured(config, 1, prompt, response)
    full_ttft, full_itl = _measured(config, batch, prompt, response)
    beta = max(full_itl - lone_itl, 0.0) / (batch - 1)
    delta = max(full_ttft - lone_ttft, 0.0) / (prompt * (batch - 1))
    delta = min(delta, lone_ttft / prompt)
    profile = (max(lone_itl - beta, 0.0), beta, lone_ttft - delta * prompt, delta)
    return _Fit(profile, lone_ttft, lone_itl, full_itl)


def _measured(config: EngineConfig, clients: int, prompt: int, response: int) -> tuple[float, float]:
    """Mean TTFT and time between tokens in ms; each client sends one request after another."""
    sent = 0
    rng = random.Random(1)

    def request(at_s: float) -> Submission:
        nonlocal sent
        sent += 1
        return Submission(
            at_s,
            SimulatedRequest(request_id=RequestId(str(sent)), prompt_tokens=prompt, output_tokens=response),
        )

    def next_request(finished: FinishedRequest) -> Iterable[Submission]:
        return [request(finished.finished_s)] if sent < clients * TURNS else []

    starts = [request(rng.uniform(0, 2.0) if clients > 1 else 0.0) for _ in range(clients)]
    run = run_virtual(Engine(config), sorted(starts, key=lambda each: each.at_s), on_finish=next_request)
    counted = [each for each in run.finished if int(each.request_id) > clients]
    ttft_s = sum(each.ttft_s or 0.0 for each in counted) / len(counted)
    itl_s = sum(each.tpot_s or 0.0 for each in counted) / len(counted)
    return 1000 * ttft_s, 1000 * itl_s
