"""Profiles measured on simulated engines, as llm-d's tutorial does: one request at a time, and a full batch.

Between tokens, a full batch waits for the prefills of others, so beta contains them, and delta is small.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec

from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.engine import Engine
from headgate.simulator.model.profiles import PROFILES
from headgate.simulator.model.request import FinishedRequest, RequestId, SimulatedRequest
from headgate.simulator.model.virtual import Submission, run_virtual
from planning_contest.simulated import Case

__all__ = ["ENGINES", "PROMPT", "RESPONSE", "case_of", "engine"]

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
    lone_ttft, lone_itl = _measured(engine(name), 1)
    full_ttft, full_itl = _measured(engine(name), BATCH)
    beta = max(full_itl - lone_itl, 0.0) / (BATCH - 1)
    delta = max(full_ttft - lone_ttft, 0.0) / (PROMPT * (BATCH - 1))
    profile = (lone_itl - beta, beta, lone_ttft - delta * PROMPT, delta)
    return Case(name, profile, BATCH, PROMPT, RESPONSE, 1000, 2 * lone_itl, (60, 240, 600))


def _measured(config: EngineConfig, clients: int) -> tuple[float, float]:
    """Mean TTFT and time between tokens in ms; each client sends one request after another."""
    sent = 0
    rng = random.Random(1)

    def request(at_s: float) -> Submission:
        nonlocal sent
        sent += 1
        return Submission(
            at_s,
            SimulatedRequest(request_id=RequestId(str(sent)), prompt_tokens=PROMPT, output_tokens=RESPONSE),
        )

    def next_request(finished: FinishedRequest) -> Iterable[Submission]:
        return [request(finished.finished_s)] if sent < clients * TURNS else []

    starts = [request(rng.uniform(0, 2.0) if clients > 1 else 0.0) for _ in range(clients)]
    run = run_virtual(Engine(config), sorted(starts, key=lambda each: each.at_s), on_finish=next_request)
    counted = [each for each in run.finished if int(each.request_id) > clients]
    ttft_s = sum(each.ttft_s or 0.0 for each in counted) / len(counted)
    itl_s = sum(each.tpot_s or 0.0 for each in counted) / len(counted)
    return 1000 * ttft_s, 1000 * itl_s
