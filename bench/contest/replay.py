"""A trace meets a policy: requests come at their times, are picked an endpoint for, and are served.

The ledger, the bookings and `scheduling.pick` are those of the gateway. First tokens and ends reach them at
their times, in virtual time.
"""

from __future__ import annotations

import heapq
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from contest.policies.published import Published, View
from contest.replicas import BLOCK_TOKENS, Fleet, Replica
from headgate import fleet, routing, scheduling
from headgate.fleet import Booking, EndpointLoad
from headgate.simulator.traces import TimedRequest

MODEL = "model"


class Result(NamedTuple):
    """What one replay came to."""

    ttfts_s: list[float]
    """In order of size."""
    hit_rate: float
    """Blocks found in caches, over all blocks of prompts."""
    decision_us: float
    """CPU time of pick, booking and notes; the median."""

    def within(self, target_s: float) -> float:
        """Share of requests whose first token came in time."""
        return sum(ttft <= target_s for ttft in self.ttfts_s) / len(self.ttfts_s)


class ReplicaView(View):
    """What is known of replicas of first order, which is all; also of requests that still wait in a queue."""

    def __init__(self, size: Fleet, replicas: Mapping[EndpointLoad, Replica]) -> None:
        super().__init__(size)
        self._replicas = replicas

    def held(self, request: scheduling.Request, load: EndpointLoad) -> int:
        return self._replicas[load].cache.matched(request.prefix)

    def queue_s(self, load: EndpointLoad, now: float) -> float:
        return max(0.0, self._replicas[load].free_at - now)


class Event(NamedTuple):
    """A first token or an end that is due."""

    at: float
    number: int
    is_end: bool
    booking: Booking
    request: TimedRequest


class Replay:
    """One policy on its own replicas."""

    def __init__(self, size: Fleet, make: Callable[[View], scheduling.Policy], seed: int) -> None:
        ledger = fleet.Ledger()
        endpoints = [routing.Endpoint(f"replica-{at}", "127.0.0.1", 8000 + at) for at in range(size.replicas)]
        self._replicas = {ledger.load(endpoint): Replica(size) for endpoint in endpoints}
        self._loads = list(self._replicas)
        rates = fleet.Rates()
        for load in self._loads:
            load.estimator.join(rates)
        self._policy = make(ReplicaView(size, self._replicas))
        self._told = self._policy if isinstance(self._policy, Published) else None
        self._rng = random.Random(seed)
        self._due: list[Event] = []
        self._number = 0
        self._decisions_ns: list[int] = []

    def run(self, requests: Sequence[TimedRequest], speed: float) -> Result:
        """Brings all requests to the replicas, `speed` times as fast as they came."""
        ttfts_s: list[float] = []
        hits = blocks = 0
        for request, ttft_s, cached_blocks in self._served(requests, speed):
            ttfts_s.append(ttft_s)
            hits += cached_blocks
            blocks += len(request.prefix)
        return Result(sorted(ttfts_s), hits / blocks, statistics.median(self._decisions_ns) / 1e3)

    def keeps(self, requests: Sequence[TimedRequest], speed: float, target_s: float, share: float) -> bool:
        """Whether so many first tokens come in time; ends as soon as too many have not."""
        late, most = 0, (1.0 - share) * len(requests)
        for _, ttft_s, _ in self._served(requests, speed):
            late += ttft_s > target_s
            if late > most:
                return False
        return True

    def _served(
        self, requests: Sequence[TimedRequest], speed: float
    ) -> Iterator[tuple[TimedRequest, float, int]]:
        """Each request, its TTFT, and how many of its blocks were cached."""
        for request in requests:
            now = request.at_s / speed
            self._until(now)
            booking = self._decide(request, now)
            served = self._replicas[booking.load].serve(request, now)
            self._expect(served.first_token_at, False, booking, request)
            self._expect(served.end_at, True, booking, request)
            yield request, served.first_token_at - now, served.cached_blocks

    def _decide(self, timed: TimedRequest, now: float) -> Booking:
        request = scheduling.Request(
            model=MODEL, prompt_tokens=timed.prompt_tokens, prefix=timed.prefix, block_tokens=BLOCK_TOKENS
        )
        began = time.perf_counter_ns()
        choice = scheduling.pick(self._policy, request, self._loads, now, self._rng)
        assert choice is not None
        booking = choice.load.book(max(timed.prompt_tokens - choice.cached_tokens, 0), 0, now)
        self._policy.booked(request, choice, now)
        self._decisions_ns.append(time.perf_counter_ns() - began)
        return booking

    def _expect(self, at: float, is_end: bool, booking: Booking, request: TimedRequest) -> None:
        self._number += 1
        heapq.heappush(self._due, Event(at, self._number, is_end, booking, request))

    def _until(self, now: float) -> None:
        """Lets happen what is due."""
        while self._due and self._due[0].at <= now:
            event = heapq.heappop(self._due)
            if event.is_end:
                event.booking.end(event.at)
                event.booking.paced(event.request.output_tokens, event.at)
                if self._told is not None:
                    self._told.ended(event.request, event.booking.load)
            else:
                event.booking.first_token(event.at)
                if self._told is not None:
                    self._told.first_token(event.request, event.booking.load)
