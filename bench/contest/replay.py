"""Replays a trace with a policy: requests arrive at their times, are assigned endpoints, and are served.

The ledger, the bookings and `scheduling.pick` are those of the gateway. First tokens, ends, and metrics
readings reach them at their times, in virtual time. The gateway sees nothing of a response without streaming
before its end; TTFT is that of the engine's first token in any case, for all policies.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from contest.policies import Make, Oracle, Page, Published, Setup
from contest.replicas import BLOCK_TOKENS, Fleet, Job, Replica
from headgate import fleet, routing, scheduling
from headgate.fleet import Booking, EndpointState
from headgate.fleet.observation import Observation
from headgate.traffic.traces import TimedRequest

MODEL = "model"
SCRAPE_S = 1.0
"""How often our gateway reads a metrics page, its default for engines without a queue in the gateway."""


class Result(NamedTuple):
    """The result of one replay."""

    ttfts_s: list[float]
    """In ascending order."""
    hit_rate: float
    """Blocks found in caches, over all blocks of prompts."""
    decision_us: float
    """Median CPU time of pick, booking and updates."""

    def within(self, target_s: float) -> float:
        """Share of requests whose first token was in time."""
        return sum(ttft <= target_s for ttft in self.ttfts_s) / len(self.ttfts_s)


def setup_of(size: Fleet) -> Setup:
    """The setup that policies are given for a fleet."""
    return Setup(size.replicas, size.cache_blocks, size.prefill_tokens_per_s)


def most_late(requests: Sequence[TimedRequest], share: float) -> int:
    """How many requests may be late for this share to be in time."""
    return len(requests) - math.ceil(round(share * len(requests), 6))


class ReplicaTruth:
    """The exact state of first-order replicas, for oracles."""

    def __init__(self, replicas: Mapping[EndpointState, Replica]) -> None:
        self._replicas = replicas

    def queue_s(self, request: scheduling.Request, load: EndpointState, now: float) -> float:
        return self._replicas[load].queue_s(request.prompt_tokens, now)

    def waiting(self, load: EndpointState) -> int:
        return self._replicas[load].waiting

    def prefill_tokens_per_s(self, load: EndpointState) -> float:
        return self._replicas[load].prefill_tokens_per_s


class Event(NamedTuple):
    """A scheduled event: an engine finishes a prefill, unless another field is set."""

    at: float
    number: int
    load: EndpointState
    ends: Job | None
    """The job whose response is complete."""
    observation: Observation | None
    """The observation for which the engine's metrics page is read."""


class Replay:
    """One policy on its own replicas."""

    def __init__(self, size: Fleet, make: Make, seed: int) -> None:
        ledger = fleet.Ledger()
        endpoints = [routing.Endpoint(f"replica-{at}", "127.0.0.1", 8000 + at) for at in range(size.replicas)]
        self._replicas = {ledger.load(endpoint): Replica(size, at) for at, endpoint in enumerate(endpoints)}
        self._loads = list(self._replicas)
        rates = fleet.Rates()
        for load in self._loads:
            load.estimator.join(rates)
        self._policy = _made(make, setup_of(size), self._replicas)
        self._told = self._policy if isinstance(self._policy, Published) else None
        self._rng = random.Random(seed)
        self._due: list[Event] = []
        self._number = 0
        self._unanswered = 0
        self._decisions_ns: list[int] = []
        beliefs = self._told.beliefs if self._told is not None else None
        self._hears = beliefs if beliefs is not None and beliefs.wants_kv_events else None
        self._scrape_s = SCRAPE_S if self._told is None else self._told.scrape_s
        if self._scrape_s:
            for at, load in enumerate(self._loads):
                self._expect(at * self._scrape_s / size.replicas, load, observation=Observation())

    def run(self, requests: Sequence[TimedRequest], speed: float) -> Result:
        """Send all requests to the replicas, `speed` times as fast as in the trace."""
        jobs = [job for job, _ in self._sent(requests, speed)]
        self._await_first_tokens()
        blocks = sum(len(job.request.prefix) for job in jobs)
        return Result(
            sorted(job.ttft_s for job in jobs),
            sum(job.cached_blocks for job in jobs) / max(blocks, 1),
            statistics.median(self._decisions_ns) / 1e3,
        )

    def keeps(self, requests: Sequence[TimedRequest], speed: float, target_s: float, share: float) -> bool:
        """Whether the share of first tokens is in time; ends as soon as too many are late."""
        late, most = 0, most_late(requests, share)
        unjudged: deque[Job] = deque()
        for job, now in self._sent(requests, speed):
            unjudged.append(job)
            while unjudged[0].ttft_s < math.inf or now - unjudged[0].arrived_at > target_s:
                late += unjudged.popleft().ttft_s > target_s
                if late > most:
                    return False
                if not unjudged:
                    break
        self._await_first_tokens()
        return late + sum(job.ttft_s > target_s for job in unjudged) <= most

    def _sent(self, requests: Sequence[TimedRequest], speed: float) -> Iterator[tuple[Job, float]]:
        """Yield each request when it is sent, with the time."""
        for request in requests:
            now = request.at_s / speed
            self._until(now)
            job = Job(request, self._decide(request, now), now)
            self._unanswered += 1
            replica = self._replicas[job.booking.load]
            self._begun(job.booking.load, replica.arrive(job, now))
            yield job, now

    def _decide(self, timed: TimedRequest, now: float) -> Booking:
        request = scheduling.Request(
            model=MODEL, prompt_tokens=timed.prompt_tokens, prefix=timed.prefix, block_tokens=BLOCK_TOKENS
        )
        began = time.perf_counter_ns()
        choice = scheduling.pick(self._policy, request, self._loads, now, self._rng)
        assert choice is not None
        uncached_tokens = max(timed.prompt_tokens - choice.cached_tokens, 0)
        booking = choice.load.book(uncached_tokens, 0, now, self._is_streamed(timed))
        self._policy.booked(request, choice, now)
        self._decisions_ns.append(time.perf_counter_ns() - began)
        return booking

    # -- events in between

    def _until(self, now: float) -> None:
        """Process the events that are due."""
        while self._due and self._due[0].at <= now:
            self._happen(heapq.heappop(self._due))

    def _await_first_tokens(self) -> None:
        while self._unanswered:
            self._happen(heapq.heappop(self._due))

    def _happen(self, event: Event) -> None:
        if event.observation is not None:
            self._read(event.load, event.observation, event.at)
        elif event.ends is not None:
            self._end(event.load, event.ends, event.at)
        else:
            self._first_token(event.load, event.at)

    def _expect(
        self, at: float, load: EndpointState, ends: Job | None = None, observation: Observation | None = None
    ) -> None:
        self._number += 1
        heapq.heappush(self._due, Event(at, self._number, load, ends, observation))

    def _begun(self, load: EndpointState, done_at: float | None) -> None:
        """An engine began to prefill a prompt, or has none. As in vLLM, it publishes its KV events then."""
        if done_at is None:
            return
        self._expect(done_at, load)
        if self._hears is not None:
            replica = self._replicas[load]
            self._hears.stored(replica.stored, load)
            self._hears.removed(replica.evicted, load)

    def _first_token(self, load: EndpointState, now: float) -> None:
        replica = self._replicas[load]
        job, next_done_at = replica.prefilled(now)
        job.ttft_s = now - job.arrived_at
        self._unanswered -= 1
        self._begun(load, next_done_at)
        self._expect(now + replica.step_s * job.request.output_tokens, load, ends=job)
        if self._is_streamed(job.request):
            self._first_byte(job, now)

    def _is_streamed(self, request: TimedRequest) -> bool:
        """Whether the router sees a response as it is generated."""
        return request.is_streamed or (self._told is not None and self._told.sees_first_tokens)

    def _first_byte(self, job: Job, now: float) -> None:
        """The gateway sees the beginning of the response."""
        job.booking.first_token(now)
        if self._told is not None:
            self._told.first_token(job.request, job.booking.load, now)

    def _end(self, load: EndpointState, job: Job, now: float) -> None:
        self._replicas[load].ended(job, now)
        if not self._is_streamed(job.request):
            self._first_byte(job, now)
        job.booking.end(now, job.request.output_tokens)
        if self._is_streamed(job.request):
            job.booking.paced(job.request.output_tokens, now)
        if self._told is not None:
            self._told.ended(job.request, load, now)

    def _read(self, load: EndpointState, observation: Observation, now: float) -> None:
        """The router reads the metrics page of an engine."""
        replica = self._replicas[load]
        observation.see(replica.figures(now), now)
        load.read(observation.reading)
        if self._told is not None:
            self._told.scraped(load, Page(replica.waiting_tokens, replica.output_tokens(now)), now)
        self._expect(now + self._scrape_s, load, observation=observation)


def _made(make: Make, setup: Setup, replicas: Mapping[EndpointState, Replica]) -> scheduling.Policy:
    """Create a policy; only oracles get access to the engines."""
    if isinstance(make, type) and issubclass(make, Oracle):
        return make(setup, ReplicaTruth(replicas))
    return make(setup)
