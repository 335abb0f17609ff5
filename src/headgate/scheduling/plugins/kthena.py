"""The plugins of Kthena's scheduler, with its formulas: integer scores from 0 to 100."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from headgate.scheduling.plugins import signals
from headgate.scheduling.plugins.parameters import Share, unused
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads, Scorer

MAX_SCORE = 100
MIN_BLOCK_BYTES = 16
"""Hashing shorter blocks would dominate the cost of a request."""
_NO_DATA = 50


class LeastRequestParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    max_waiting_requests: Annotated[int, msgspec.Meta(ge=0)] = 10


class LeastRequest(Scorer, Filter):
    """As a filter: fewer than `maxWaitingRequests` wait. As a scorer: base = in flight + 100 x those of them
    that are not running, max(in flight - running, 0); int((max - base) / max x 100), 100 if max is 0.

    In flight are this gateway's requests. Without readings, those with a first token count as running.
    """

    kind = "least-request"
    Parameters = LeastRequestParameters
    about_load = True

    def __init__(self, parameters: LeastRequestParameters | None = None) -> None:
        super().__init__()
        self._most = (parameters or LeastRequestParameters()).max_waiting_requests

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        most = self._most
        return [load for load, count in zip(loads, signals.waiting(loads), strict=True) if count < most]

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        bases = []
        for load in loads:
            reading, requests = load.reading, load.requests
            running = load.decoding if reading is None or reading.running is None else reading.running
            bases.append(requests + 100 * (requests - running) if requests > running else requests)
        most = max(bases)
        return [int((most - base) / most * MAX_SCORE) for base in bases] if most else [MAX_SCORE] * len(loads)


class LeastLatencyParameters(msgspec.Struct, frozen=True, kw_only=True):
    factor: Share = msgspec.field(default=0.5, name="TTFTTPOTWeightFactor")


class LeastLatency(Scorer):
    """f x TTFT + (1 - f) x TPOT, each (max - x) / (max - min) x 100, or 100 if all are equal. An endpoint
    without either figure gets 50, and does not count for min and max."""

    kind = "least-latency"
    Parameters = LeastLatencyParameters

    def __init__(self, parameters: LeastLatencyParameters | None = None) -> None:
        super().__init__()
        self._factor = (parameters or LeastLatencyParameters()).factor

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        scores: list[float] = [_NO_DATA] * len(loads)
        known = [
            place
            for place, load in enumerate(loads)
            if (reading := load.reading) is not None and reading.ttft_s and reading.tpot_s
        ]
        if known:
            readings = [reading for place in known if (reading := loads[place].reading) is not None]
            ttfts = _least_first([reading.ttft_s or 0.0 for reading in readings])
            tpots = _least_first([reading.tpot_s or 0.0 for reading in readings])
            factor = self._factor
            for place, ttft, tpot in zip(known, ttfts, tpots, strict=True):
                scores[place] = int(factor * ttft + (1 - factor) * tpot)
        return scores


def _least_first(values: list[float]) -> list[float]:
    """100 for the least, 0 for the most; 100 for all if they are equal."""
    least, most = min(values), max(values)
    if least == most:
        return [MAX_SCORE] * len(values)
    spread = most - least
    return [(most - value) / spread * MAX_SCORE for value in values]


class GpuUsage(Scorer):
    """(1 - usage of the KV cache) x 100."""

    kind = "gpu-usage"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return [int((1.0 - usage) * MAX_SCORE) for usage in signals.kv_usage(loads)]


class PrefixCacheParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    block_size_to_hash: Annotated[int, msgspec.Meta(ge=1)] = 64
    max_blocks_to_match: Annotated[int, msgspec.Meta(ge=1)] = 128
    max_hash_cache_size: Annotated[
        int, unused("an endpoint's index is as large as its cache"), msgspec.Meta(ge=1)
    ] = 50_000
    top_k_matches: Annotated[int, msgspec.Meta(ge=1)] = 5


class PrefixCache(Scorer):
    """Matched blocks / blocks x 100 for the `topKMatches` endpoints with the longest matches, others 0.

    Blocks have `blockSizeToHash` bytes, at least 16, in the first KiB of a prompt, and the gateway's size
    after that. In Kthena, `maxBlocksToMatch` x `blockSizeToHash` bytes end at the first 8 KiB of a prompt;
    here the whole prompt is compared.
    """

    kind = "prefix-cache"
    Parameters = PrefixCacheParameters
    uses_prefix = True

    def __init__(self, parameters: PrefixCacheParameters | None = None) -> None:
        super().__init__()
        said = parameters or PrefixCacheParameters()
        self._best = said.top_k_matches
        self.first_block_bytes = max(said.block_size_to_hash, MIN_BLOCK_BYTES)

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        shares = cycle.held_shares(loads)
        best = sorted(range(len(loads)), key=shares.__getitem__, reverse=True)[: self._best]
        scores = [0] * len(loads)
        for place in best:
            scores[place] = int(shares[place] * MAX_SCORE)
        return scores


class KvCacheAwareParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    block_size_to_hash: Annotated[
        int, unused("engines say the size of their blocks with their events"), msgspec.Meta(ge=1)
    ] = 16
    max_blocks_to_match: Annotated[int, unused("the whole prompt is compared"), msgspec.Meta(ge=1)] = 128


class KvCacheAware(Scorer):
    """Consecutive leading blocks of the prompt that an endpoint holds / blocks x 100."""

    kind = "kvcache-aware"
    Parameters = KvCacheAwareParameters
    uses_prefix = True

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return [int(share * MAX_SCORE) for share in cycle.held_shares(loads)]


class LoraAffinity(Filter):
    """Keeps endpoints whose engine lists the requested model or adapter, or has no list."""

    kind = "lora-affinity"
    judges_adapters = True

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        name = cycle.request.adapter or cycle.request.model
        return [
            load
            for load in loads
            if load.reading is None or load.reading.models is None or name in load.reading.models
        ]


class Random(Scorer):
    """A random integer from 0 to 100."""

    kind = "random"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        return [cycle.rng.randint(0, MAX_SCORE) for _ in loads]
