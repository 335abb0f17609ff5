"""The same contest on stepped engines: continuous batching, chunked prefill, a KV cache held by requests.

Includes what the first-order replicas omit: decoding slows down prefilling, and a prompt may have to wait for
cache capacity. It takes about thirty times as long to compute.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence

import msgspec

from contest.policies import Make, Oracle, Page, Published
from contest.replay import SCRAPE_S, Result, most_late, setup_of
from contest.replicas import BLOCK_TOKENS, SLOW, Fleet
from headgate import scheduling
from headgate.fleet import EndpointState
from headgate.simulator.fleet import EngineGroup, FleetDescription, Observer, run_fleet
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.model import BlockRemoved, BlockStored, EngineConfig, KvEvent, StepCosts
from headgate.traffic.traces import TimedRequest

BUDGET_TOKENS = 2048
BASE_S = 0.01
PER_SEQUENCE_S = 5e-5
PER_KV_TOKEN_S = 3.9e-8
"""128 KB of KV cache per token at 3.3 TB/s: a model of 8 billion parameters on an H100."""
LONGEST_PROMPT = 250_000
LONGEST_QUEUE = 1_000_000


def describe(size: Fleet, scrape_s: float) -> FleetDescription:
    """Engines that prefill at the rate of the first-order replicas while nothing is decoded."""
    groups = [("engine", size.replicas - size.slow_replicas, 1.0), ("slow", size.slow_replicas, SLOW)]
    return FleetDescription(
        groups=tuple(
            EngineGroup(name=name, engine=_engine(size, speed), count=count)
            for name, count, speed in groups
            if count
        ),
        scrape_s=scrape_s,
    )


def _engine(size: Fleet, speed: float) -> EngineConfig:
    per_prefill_token_s = 1.0 / size.prefill_tokens_per_s - BASE_S / BUDGET_TOKENS
    return EngineConfig(
        costs=StepCosts(
            base_s=BASE_S / speed,
            per_decode_sequence_s=PER_SEQUENCE_S / speed,
            per_kv_token_s=PER_KV_TOKEN_S / speed,
            per_prefill_token_s=per_prefill_token_s / speed,
        ),
        max_model_len=min(LONGEST_PROMPT, size.cache_blocks * BLOCK_TOKENS),
        prefill_budget_tokens=BUDGET_TOKENS,
        kv_blocks=size.cache_blocks,
        block_size=BLOCK_TOKENS,
        max_waiting=LONGEST_QUEUE,
        by_priority=size.shortest_first,
    )


class Stepped:
    """One policy on its own engines; like `Replay`."""

    def __init__(self, size: Fleet, make: Make, seed: int) -> None:
        if isinstance(make, type) and issubclass(make, Oracle):
            raise ValueError(f"{make.__name__} knows replicas of first order only")
        self._size = size
        self._seed = seed
        self._policy = make(setup_of(size))

    def run(self, requests: Sequence[TimedRequest], speed: float) -> Result:
        watched = _Watched(self._policy)
        run = run_fleet(
            self._at_speed(requests, speed),
            self._described(),
            watched.timed,
            seed=self._seed,
            observer=watched,
        )
        hits = sum(record.cached_tokens for record in run.records)
        tokens = sum(record.prompt_tokens for record in run.records)
        return Result(sorted(watched.ttfts_s), hits / tokens, statistics.median(watched.timed.took_ns) / 1e3)

    def keeps(self, requests: Sequence[TimedRequest], speed: float, target_s: float, share: float) -> bool:
        """Whether the share of first tokens is in time; ends soon after too many are late."""
        most = most_late(requests, share)
        watched = _Watched(self._policy, target_s)

        def while_possible() -> Iterator[TimedRequest]:
            for request in self._at_speed(requests, speed):
                if watched.late > most:
                    return
                yield request

        run_fleet(while_possible(), self._described(), watched.timed, seed=self._seed, observer=watched)
        return watched.late <= most

    def _described(self) -> FleetDescription:
        scrape_s = self._policy.scrape_s if isinstance(self._policy, Published) else SCRAPE_S
        return describe(self._size, scrape_s)

    def _at_speed(self, requests: Sequence[TimedRequest], speed: float) -> Iterator[TimedRequest]:
        sees_all = isinstance(self._policy, Published) and self._policy.sees_first_tokens
        for request in requests:
            # Engines that schedule by priority take the shortest prompt first, if priority encodes its
            # length.
            priority = -request.prompt_tokens if self._size.shortest_first else request.priority
            yield msgspec.structs.replace(
                request,
                at_s=request.at_s / speed,
                priority=priority,
                is_streamed=request.is_streamed or sees_all,
            )


class _Watched(Observer):
    """Passes events to the policy, and records first tokens, whether the gateway sees them or not."""

    def __init__(self, policy: scheduling.Policy, target_s: float = 0.0) -> None:
        self.timed = _Timed(policy)
        self.ttfts_s: list[float] = []
        self.late = 0
        self._told = policy if isinstance(policy, Published) else None
        self.wants_kv_events = self._told is not None and self._told.beliefs.wants_kv_events
        self._target_s = target_s

    def generated(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        self.ttfts_s.append(now - request.at_s)
        self.late += now - request.at_s > self._target_s

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        if self._told is not None:
            self._told.first_token(request, load, now)

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        if self._told is not None:
            self._told.ended(request, load, now)

    def read(self, endpoint: SimulatedEndpoint, now: float) -> None:
        if self._told is not None:
            engine = endpoint.engine
            page = Page(engine.waiting_tokens, engine.statistics().output_tokens_total)
            self._told.scraped(endpoint.load, page, now)

    def kv_events(self, events: Sequence[KvEvent], load: EndpointState, now: float) -> None:
        assert self._told is not None
        for event in events:
            if isinstance(event, BlockStored):
                self._told.beliefs.stored(event.hashes, load)
            elif isinstance(event, BlockRemoved):
                self._told.beliefs.removed(event.hashes, load)


class _Timed(scheduling.Policy):
    """Wraps a policy to measure its CPU time."""

    def __init__(self, policy: scheduling.Policy) -> None:
        self._policy = policy
        self.uses_prefix = policy.uses_prefix
        self.took_ns: list[int] = []

    def pick(
        self,
        request: scheduling.Request,
        candidates: Sequence[EndpointState],
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
