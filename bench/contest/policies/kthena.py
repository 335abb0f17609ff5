"""Kthena's router, its default plugins (pkg/kthena-router/scheduler, no scheduler configuration).

Filter least-request: fewer than 10 waiting. Scores of 0 to 100, each of weight 1, the highest sum wins:

least-request  (max - base) / max, base = in flight + 100 * max(in flight - running, 0)
least-latency  half TTFT, half TPOT: (max - x) / (max - min); 50 where an engine shows neither
prefix-cache   matched / all blocks, of the 5 endpoints that match best

Waiting, running, TTFT and TPOT are read every second; times are means of that second, or nothing. Cache
contents are assumed from its picks, for the first 128 blocks of 64 bytes: 2,048 tokens at four bytes each,
at most 50,000 per endpoint. If the filter leaves no endpoint, Kthena returns 400; here all remain.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from contest.beliefs import OwnPicks
from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState, EngineReading
from headgate.scheduling import Request

MAX_WAITING = 10
WAITING_WEIGHT = 100
TTFT_SHARE = 0.5
UNKNOWN = 50
TOP_MATCHES = 5
BLOCK_BYTES, BYTES_PER_TOKEN = 64, 4
MATCHED_BLOCKS, KEPT_BLOCKS = 128, 50_000


class DefaultPlugins(Published):
    scrape_s = 1.0

    def __init__(self, setup: Setup) -> None:
        bytes_per_block = BLOCK_TOKENS * BYTES_PER_TOKEN
        super().__init__(
            setup,
            OwnPicks(
                KEPT_BLOCKS * BLOCK_BYTES // bytes_per_block, MATCHED_BLOCKS * BLOCK_BYTES // bytes_per_block
            ),
        )

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        kept = [load for load in loads if _waiting(load) < MAX_WAITING] or loads
        scores = [least_request(kept), least_latency(kept), self._prefix_cache(request, kept, now)]
        return least(kept, rng, lambda load: -sum(score[load] for score in scores))

    def _prefix_cache(
        self, request: Request, loads: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, int]:
        blocks = min(len(request.prefix), MATCHED_BLOCKS * BLOCK_BYTES // (BLOCK_TOKENS * BYTES_PER_TOKEN))
        held = {load: self.held(request, load, now) for load in loads}
        top = sorted(loads, key=lambda load: -held[load])[:TOP_MATCHES]
        return {load: int(100 * held[load] / blocks) if blocks and load in top else 0 for load in loads}


def least_request(loads: Sequence[EndpointState]) -> Mapping[EndpointState, int]:
    """Scores from requests in flight, and from those of them that are not running."""
    bases = {load: load.requests + WAITING_WEIGHT * max(load.requests - _running(load), 0) for load in loads}
    most = max(bases.values())
    return {load: int((most - base) / most * 100) if most else 100 for load, base in bases.items()}


def _waiting(load: EndpointState) -> int:
    return (load.reading.waiting or 0) if load.reading is not None else 0


def _running(load: EndpointState) -> int:
    return (load.reading.running or 0) if load.reading is not None else 0


def least_latency(loads: Sequence[EndpointState]) -> Mapping[EndpointState, int]:
    """Scores from the engines' measurements of the last second."""
    times = {load: _times_s(load.reading) for load in loads}
    known = {load: each for load, each in times.items() if min(each) > 0.0}
    scores = dict.fromkeys(loads, UNKNOWN)
    for load, (ttft_s, tpot_s) in known.items():
        ttft = _score(ttft_s, [ttft for ttft, _ in known.values()])
        tpot = _score(tpot_s, [tpot for _, tpot in known.values()])
        scores[load] = int(TTFT_SHARE * ttft + (1.0 - TTFT_SHARE) * tpot)
    return scores


def _score(seconds: float, all_s: Sequence[float]) -> float:
    most, fewest = max(all_s), min(all_s)
    return 100.0 * (most - seconds) / (most - fewest) if most > fewest else 100.0


def _times_s(reading: EngineReading | None) -> tuple[float, float]:
    """TTFT and TPOT over the second before the reading; 0 if there were none."""
    if reading is None:
        return 0.0, 0.0
    ttft_s = reading.ttft_s if reading.ttft_at == reading.at else None
    tpot_s = reading.tpot_s if reading.tpot_at == reading.at else None
    return ttft_s or 0.0, tpot_s or 0.0
