"""The same contest on engines that step: continuous batching, chunked prefill, a KV cache that requests hold.

What the first-order replicas leave out is here: decoding slows prefilling down, and a prompt may have to wait
for room in the cache. It takes some thirty times as long to compute.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from contest.policies.published import Published, View
from contest.replay import Result
from contest.replicas import BLOCK_TOKENS, Fleet
from headgate import scheduling
from headgate.fleet import EndpointLoad
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.model import BlockRemoved, BlockStored, EngineConfig, KvEvent, StepCosts
from headgate.simulator.traces import TimedRequest

BUDGET_TOKENS = 2048
BASE_S = 0.01
PER_SEQUENCE_S = 5e-5
PER_KV_TOKEN_S = 3.9e-8
"""128 KB of KV for each token at 3.3 TB/s: a model of 8 billion parameters on an H100."""
SCRAPE_S = 1.0
LONGEST_PROMPT = 250_000
LONGEST_QUEUE = 1_000_000


def describe(size: Fleet) -> FleetDescription:
    """Engines that prefill at the rate of the first-order replicas while they decode nothing."""
    costs = StepCosts(
        base_s=BASE_S,
        per_decode_sequence_s=PER_SEQUENCE_S,
        per_kv_token_s=PER_KV_TOKEN_S,
        per_prefill_token_s=1.0 / size.prefill_tokens_per_s - BASE_S / BUDGET_TOKENS,
    )
    engine = EngineConfig(
        costs=costs,
        max_model_len=min(LONGEST_PROMPT, size.cache_blocks * BLOCK_TOKENS),
        prefill_budget_tokens=BUDGET_TOKENS,
        kv_blocks=size.cache_blocks,
        block_size=BLOCK_TOKENS,
        max_waiting=LONGEST_QUEUE,
    )
    group = EngineGroup(name="engine", engine=engine, count=size.replicas)
    return FleetDescription(groups=(group,), scrape_s=SCRAPE_S)


class EngineView(View):
    """What the published formulas know of engines: caches by their KV events, queues as they are learned."""

    def __init__(self, size: Fleet) -> None:
        super().__init__(size)
        self.blocks: dict[EndpointLoad, set[int]] = defaultdict(set)

    def held(self, request: scheduling.Request, load: EndpointLoad) -> int:
        blocks = self.blocks[load]
        return next(
            (at for at, block in enumerate(request.prefix) if block not in blocks), len(request.prefix)
        )

    def queue_s(self, load: EndpointLoad, now: float) -> float:
        return load.estimator.queue_s(now)


class Stepped:
    """One policy on engines of its own; like `Replay`."""

    def __init__(self, size: Fleet, make: Callable[[View], scheduling.Policy], seed: int) -> None:
        self._size = size
        self._seed = seed
        self._view = EngineView(size)
        self._policy = make(self._view)

    def run(self, requests: Sequence[TimedRequest], speed: float) -> Result:
        watched = _Watched(self._policy, self._view)
        run = run_fleet(
            _at_speed(requests, speed), describe(self._size), watched.timed, seed=self._seed, observer=watched
        )
        hits = sum(record.cached_tokens for record in run.records)
        tokens = sum(record.prompt_tokens for record in run.records)
        ttfts_s = sorted(record.ttft_s for record in run.records if record.ttft_s is not None)
        return Result(ttfts_s, hits / tokens, statistics.median(watched.timed.took_ns) / 1e3)

    def keeps(self, requests: Sequence[TimedRequest], speed: float, target_s: float, share: float) -> bool:
        """Whether so many first tokens come in time; ends soon after too many have not."""
        most = (1.0 - share) * len(requests)
        watched = _Watched(self._policy, self._view, target_s)

        def while_possible() -> Iterator[TimedRequest]:
            for request in _at_speed(requests, speed):
                if watched.late > most:
                    return
                yield request

        run_fleet(while_possible(), describe(self._size), watched.timed, seed=self._seed, observer=watched)
        return watched.late <= most


def _at_speed(requests: Sequence[TimedRequest], speed: float) -> Iterator[TimedRequest]:
    for request in requests:
        yield msgspec.structs.replace(request, at_s=request.at_s / speed)


class _Watched(Observer):
    """Tells the policy and its view what they are to know, and counts late first tokens."""

    def __init__(self, policy: scheduling.Policy, view: EngineView, target_s: float = 0.0) -> None:
        self.timed = _Timed(policy)
        self.late = 0
        self.wants_kv_events = isinstance(policy, Published)
        self._told = policy if isinstance(policy, Published) else None
        self._view = view
        self._target_s = target_s

    def first_token(self, request: TimedRequest, load: EndpointLoad, now: float) -> None:
        self.late += now - request.at_s > self._target_s
        if self._told is not None:
            self._told.first_token(request, load)

    def ended(self, request: TimedRequest, load: EndpointLoad, now: float) -> None:
        if self._told is not None:
            self._told.ended(request, load)

    def kv_events(self, events: Sequence[KvEvent], load: EndpointLoad, now: float) -> None:
        blocks = self._view.blocks[load]
        for event in events:
            if isinstance(event, BlockStored):
                blocks.update(event.hashes)
            elif isinstance(event, BlockRemoved):
                blocks.difference_update(event.hashes)


class _Timed(scheduling.Policy):
    """Another policy, and how long it takes."""

    def __init__(self, policy: scheduling.Policy) -> None:
        self._policy = policy
        self.uses_prefix = policy.uses_prefix
        self.took_ns: list[int] = []

    def pick(
        self,
        request: scheduling.Request,
        candidates: Sequence[EndpointLoad],
        now: float,
        rng: random.Random,
    ) -> scheduling.Choice | None:
        began = time.perf_counter_ns()
        choice = self._policy.pick(request, candidates, now, rng)
        self.took_ns.append(time.perf_counter_ns() - began)
        return choice

    def booked(self, request: scheduling.Request, choice: scheduling.Choice, now: float) -> None:
        began = time.perf_counter_ns()
        self._policy.booked(request, choice, now)
        self.took_ns[-1] += time.perf_counter_ns() - began
