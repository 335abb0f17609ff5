"""Plugins by predicted latency: against an objective, and against the value of a cache.

The time to first token comes from each endpoint's estimator, the time between tokens from the engine's own
reading. Objectives are the request's headers x-llm-d-slo-ttft-ms and x-llm-d-slo-tpot-ms (older: x-slo-...).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.parameters import Producer, Share, unused
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads, Scorer
from headgate.scheduling.request import Request

_TTFT = (b"x-llm-d-slo-ttft-ms", b"x-slo-ttft-ms")
_TPOT = (b"x-llm-d-slo-tpot-ms", b"x-slo-tpot-ms")


def objective_ms(request: Request, names: Sequence[bytes]) -> float:
    """The value of the first of these headers; 0 without one."""
    for name in names:
        text = request.header(name)[:32]
        if text:
            try:
                value = float(text)
            except ValueError:
                return 0.0
            return value if 0 < value < math.inf else 0.0
    return 0.0


def first_token_ms(cycle: Cycle, loads: Loads) -> list[float]:
    """Predicted milliseconds to the request's first token, on each endpoint."""
    request, now = cycle.request, cycle.now
    return [
        load.estimator.first_token_s(
            max(request.prompt_tokens - held, 0.0), now, loads_adapter=not load.has_adapter(request.adapter)
        )
        * 1e3
        for load, held in zip(loads, cycle.held_tokens(loads), strict=True)
    ]


def headrooms(cycle: Cycle, loads: Loads) -> list[tuple[float, float]]:
    """Objective - prediction in milliseconds, of TTFT and of TPOT; a missing objective is 0.

    The TPOT of an engine that does not report one is taken to be the objective.
    """
    ttft_ms, tpot_ms = objective_ms(cycle.request, _TTFT), objective_ms(cycle.request, _TPOT)
    return [
        (ttft_ms - first_ms, tpot_ms - 1e3 * load.reading.tpot_s)
        if load.reading is not None and load.reading.tpot_s is not None
        else (ttft_ms - first_ms, 0.0)
        for load, first_ms in zip(loads, first_token_ms(cycle, loads), strict=True)
    ]


_STEPS = 100


class LatencyParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ttft_weight: Annotated[float, msgspec.Meta(ge=0)] = 0.8
    tpot_weight: Annotated[float, msgspec.Meta(ge=0)] = 0.2
    headroom_selection_strategy: Literal["least", "most"] = "least"
    composite_kv_weight: Annotated[float, msgspec.Meta(ge=0)] = msgspec.field(
        default=1.0, name="compositeKVWeight"
    )
    composite_queue_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    composite_prefix_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    latency_prediction_info_producer_name: Producer = ""
    prefix_match_info_producer_name: Producer = ""


class LatencyScorer(Scorer):
    """Scores endpoints by the predicted margin to the objectives.

    Endpoints that meet both objectives are scored, others get 0: with `least`, the smallest margin is best.
    If none meets both, only idle endpoints are scored, else those that miss only TPOT, else only TTFT, else
    both, and the smallest miss is best. Margins are scaled to 0..1 over the scored endpoints, and combined as
    .8 TTFT + .2 TPOT; one that is equal for all is left out. Without an objective, the least predicted
    latency is best. Until any latency was learned, the score is the composite of free cache, queue and
    prefix.
    """

    kind = "latency-scorer"
    Parameters = LatencyParameters
    uses_prefix = True

    def __init__(self, parameters: LatencyParameters | None = None) -> None:
        super().__init__()
        self._said = parameters or LatencyParameters()

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        if not any(load.estimator.rates.observations for load in loads):
            return self._composite(cycle, loads)
        rooms = headrooms(cycle, loads)
        scores = [0.0] * len(loads)
        kept = [place for place, (ttft, tpot) in enumerate(rooms) if ttft >= 0 and tpot >= 0]
        if kept:
            self._score(kept, rooms, scores, least=self._said.headroom_selection_strategy == "least")
        else:
            self._score(_least_bad(loads, rooms), rooms, scores, least=True)
        return scores

    def _score(
        self, places: Sequence[int], rooms: list[tuple[float, float]], scores: list[float], *, least: bool
    ) -> None:
        ttfts = _spread([abs(rooms[place][0]) for place in places])
        tpots = _spread([abs(rooms[place][1]) for place in places])
        ttft_weight, tpot_weight = self._weights(ttfts is not None, tpots is not None)
        half = [0.5] * len(places)
        for place, ttft, tpot in zip(places, ttfts or half, tpots or half, strict=True):
            room = ttft_weight * ttft + tpot_weight * tpot
            scores[place] = min((int((1.0 - room if least else room) * _STEPS) + 1) / _STEPS, 1.0)

    def _weights(self, ttft_differs: bool, tpot_differs: bool) -> tuple[float, float]:
        if ttft_differs != tpot_differs:
            return (1.0, 0.0) if ttft_differs else (0.0, 1.0)
        ttft, tpot = self._said.ttft_weight, self._said.tpot_weight
        return (ttft / (ttft + tpot), tpot / (ttft + tpot)) if ttft + tpot > 0 else (1.0, 0.0)

    def _composite(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        said = self._said
        kv, queue, prefix = (
            said.composite_kv_weight,
            said.composite_queue_weight,
            said.composite_prefix_weight,
        )
        total = kv + queue + prefix
        if total <= 0:
            kv, total = 1.0, 1.0
        waiting = signals.waiting(loads)
        longest = max(waiting) or 1
        return [
            round(_STEPS * (kv * (1 - used) + queue * (1 - count / longest) + prefix * held) / total) / _STEPS
            for used, count, held in zip(
                signals.kv_usage(loads), waiting, cycle.held_shares(loads), strict=True
            )
        ]


def _spread(values: list[float]) -> list[float] | None:
    """From 0 for the least to 1 for the most; None if they are equal."""
    least, most = min(values), max(values)
    if most - least <= 1e-9:
        return None
    return [(value - least) / (most - least) for value in values]


def _least_bad(loads: Loads, rooms: list[tuple[float, float]]) -> list[int]:
    """The indexes of the endpoints to score if all miss an objective."""
    places = range(len(loads))
    idle = [place for place in places if not loads[place].requests]
    if idle:
        return idle
    classes = {(False, True): 0, (True, False): 1, (True, True): 2}
    worst = [classes[ttft < 0, tpot < 0] for ttft, tpot in rooms]
    return [place for place in places if worst[place] == min(worst)]


class SloTierParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    epsilon_explore_neg: Share = 0.01


class SloHeadroomTierFilter(Filter):
    """Keeps endpoints that are predicted to meet the objectives, if there are any; with the probability
    `epsilonExploreNeg` the others, so that their figures stay current."""

    kind = "slo-headroom-tier-filter"
    Parameters = SloTierParameters
    uses_prefix = True

    def __init__(self, parameters: SloTierParameters | None = None) -> None:
        super().__init__()
        self._explores = (parameters or SloTierParameters()).epsilon_explore_neg

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        if len(loads) < 2:
            return loads
        rooms = headrooms(cycle, loads)
        keeping = [load for load, (ttft, tpot) in zip(loads, rooms, strict=True) if ttft >= 0 and tpot >= 0]
        if not keeping or len(keeping) == len(loads):
            return loads
        if cycle.rng.random() < self._explores:
            return [load for load in loads if load not in keeping]
        return keeping


class PrefixAffinityParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    affinity_threshold: Share = 0.8
    exploration_probability: Share = 0.0
    max_ttft_penalty_ms: Annotated[float, msgspec.Meta(ge=0)] = msgspec.field(
        default=18_000.0, name="maxTTFTPenaltyMs"
    )
    ttft_source: Literal["prefillThroughput", "latencyPredictor"] = "prefillThroughput"
    peak_prefill_throughput: Annotated[float, msgspec.Meta(gt=0)] = 15_928.0
    prefill_calibration_file: Annotated[
        str, unused("say peakPrefillThroughput, or ttftSource: latencyPredictor, which learns it")
    ] = ""
    prefill_calibration_fingerprint: Annotated[str, unused("no calibration file is read")] = ""
    prefill_calibration_required: Annotated[bool, unused("no calibration file is read")] = False
    prefix_match_info_producer_name: Producer = ""
    in_flight_load_producer_name: Producer = ""
    latency_prediction_info_producer_name: Producer = ""


class PrefixCacheAffinityFilter(Filter):
    """Keeps endpoints that hold at least `affinityThreshold` of the prompt. Keeps all if none does, with
    `explorationProbability`, or if the best of them has its first token more than `maxTTFTPenaltyMs` (0 is
    any) later than the best of the others.

    Milliseconds to the first token are the tokens to prefill in flight / `peakPrefillThroughput` x 1000, or
    the prediction with `ttftSource: latencyPredictor`.
    """

    kind = "prefix-cache-affinity-filter"
    Parameters = PrefixAffinityParameters
    uses_prefix = True

    def __init__(self, parameters: PrefixAffinityParameters | None = None) -> None:
        super().__init__()
        self._said = parameters or PrefixAffinityParameters()

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        said, shares = self._said, cycle.held_shares(loads)
        if not cycle.request.prefix:
            return loads
        needed = said.affinity_threshold
        sticky = [load for load, share in zip(loads, shares, strict=True) if share >= needed]
        if not sticky or len(sticky) == len(loads):
            return loads
        if said.exploration_probability and cycle.rng.random() < said.exploration_probability:
            return loads
        if said.max_ttft_penalty_ms:
            others = [load for load in loads if load not in sticky]
            ttft_ms = dict(zip(loads, self._ttft_ms(cycle, loads), strict=True))
            penalty_ms = min(map(ttft_ms.__getitem__, sticky)) - min(map(ttft_ms.__getitem__, others))
            if penalty_ms > said.max_ttft_penalty_ms:
                return loads
        return sticky

    def _ttft_ms(self, cycle: Cycle, loads: Loads) -> list[float]:
        if self._said.ttft_source == "latencyPredictor":
            return first_token_ms(cycle, loads)
        return [load.prefill_tokens / self._said.peak_prefill_throughput * 1e3 for load in loads]
