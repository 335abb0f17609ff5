"""First-order engines: each prefills one prompt at a time, and has a block cache.

A prompt waits for its turn, takes its uncached tokens over the prefill rate, and its output is then generated
at a fixed pace. Decoding does not slow down prefilling, and the cache only holds prompts.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from contest.cache import BlockCache
from headgate.engines import Figures, Total
from headgate.fleet import Booking
from headgate.traffic.traces import TimedRequest

BLOCK_TOKENS = 512
DECODE_STEP_S = 0.02
SLOW = 0.5
"""Speed of a slow engine, as a fraction of the others'."""
PATIENCE_S = 10.0
"""With shortest-first order, a prompt that has waited this long is no longer overtaken."""


class Fleet(NamedTuple):
    """The engines. Policies never see this; they get a `Setup`."""

    replicas: int = 8
    prefill_tokens_per_s: float = 16_000.0
    """Of an engine at full speed."""
    cache_blocks: int = 6000
    slow_replicas: int = 0
    """How many run at half speed: the last ones."""
    shortest_first: bool = False
    """Whether an engine takes the shortest waiting prompt next, instead of the oldest."""

    def speed(self, at: int) -> float:
        """Speed of engine number `at`; 1 is full speed."""
        return SLOW if at >= self.replicas - self.slow_replicas else 1.0


class Job:
    """A request on an engine."""

    __slots__ = ("arrived_at", "booking", "cached_blocks", "is_begun", "request", "ttft_s", "uncached_tokens")

    def __init__(self, request: TimedRequest, booking: Booking, now: float) -> None:
        self.request = request
        self.booking = booking
        self.arrived_at = now
        self.is_begun = False
        self.cached_blocks = 0
        self.uncached_tokens = booking.uncached_tokens
        """As its policy expects until it begins, then the actual number."""
        self.ttft_s = math.inf
        """Of the engine's first token, whether the gateway sees it or not; infinite until then."""


class Replica:
    """One engine, in virtual time."""

    def __init__(self, fleet: Fleet, at: int = 0) -> None:
        self.cache = BlockCache(fleet.cache_blocks)
        self.prefill_tokens_per_s = fleet.prefill_tokens_per_s * fleet.speed(at)
        self.step_s = DECODE_STEP_S / fleet.speed(at)
        self.stored: Sequence[int] = ()
        """Blocks of the prompt being prefilled."""
        self.evicted: Sequence[int] = ()
        """Blocks evicted for it."""
        self._shortest_first = fleet.shortest_first
        self._arrived: deque[Job] = deque()
        self._shortest: list[tuple[int, int, Job]] = []
        self._number = 0
        self._waiting = 0
        self._prefills: Job | None = None
        self._done_at = 0.0
        self._decoding = 0
        self._held_blocks = 0
        self._decoded = 0.0
        self._decoded_at = 0.0
        self._ttft = Total(0.0, 0)

    # -- prompts

    def arrive(self, job: Job, now: float) -> float | None:
        """Accept a prompt; returns when its prefill ends if it begins immediately."""
        self._waiting += 1
        self._arrived.append(job)
        if self._shortest_first:
            self._number += 1
            heapq.heappush(self._shortest, (job.request.prompt_tokens, self._number, job))
        return self._begin_next(now) if self._prefills is None else None

    def prefilled(self, now: float) -> tuple[Job, float | None]:
        """The finished prompt, whose first token is sent now, and when the next one will be finished."""
        job = self._prefills
        assert job is not None
        self._decode(1, now)
        self._ttft = Total(self._ttft.sum_s + now - job.arrived_at, self._ttft.samples + 1)
        self._prefills = None
        return job, self._begin_next(now)

    def ended(self, job: Job, now: float) -> None:
        """The response is complete."""
        self._decode(-1, now)
        self._held_blocks -= len(job.request.prefix)

    def _begin_next(self, now: float) -> float | None:
        job = self._next(now)
        if job is None:
            return None
        job.is_begun = True
        self._waiting -= 1
        prefix = job.request.prefix
        job.cached_blocks = self.cache.matched(prefix)
        job.uncached_tokens = max(0, job.request.prompt_tokens - BLOCK_TOKENS * job.cached_blocks)
        self.stored, self.evicted = prefix, self.cache.use(prefix)
        self._held_blocks += len(prefix)
        self._prefills = job
        self._done_at = now + job.uncached_tokens / self.prefill_tokens_per_s
        return self._done_at

    def _next(self, now: float) -> Job | None:
        arrived = self._arrived
        while arrived and arrived[0].is_begun:
            arrived.popleft()
        if not arrived:
            self._shortest.clear()
            return None
        if not self._shortest_first or now - arrived[0].arrived_at > PATIENCE_S:
            return arrived.popleft()
        while (job := heapq.heappop(self._shortest)[2]).is_begun:
            pass
        return job

    def _decode(self, more: int, now: float) -> None:
        self._decoded += self._decoding * (now - self._decoded_at) / self.step_s
        self._decoded_at = now
        self._decoding += more

    # -- what it reports

    def figures(self, now: float) -> Figures:
        """Its metrics page."""
        self._decode(0, now)
        return Figures(
            waiting=self._waiting,
            running=self._decoding + (self._prefills is not None),
            kv_usage=min(1.0, self._held_blocks / self.cache.capacity),
            block_tokens=BLOCK_TOKENS,
            blocks=self.cache.capacity,
            ttft=self._ttft,
            ttft_is_of_all=True,
            tpot=Total(self._decoded * self.step_s, self._decoded),
        )

    def waiting_tokens(self) -> int:
        """Uncached tokens of waiting prompts, as some engines report them."""
        return sum(
            max(0, job.request.prompt_tokens - BLOCK_TOKENS * self.cache.matched(job.request.prefix))
            for job in self._arrived
            if not job.is_begun
        )

    def output_tokens(self, now: float) -> float:
        """Tokens generated since it started."""
        self._decode(0, now)
        return self._decoded

    # -- for oracles

    @property
    def waiting(self) -> int:
        """Requests without a first token."""
        return self._waiting + (self._prefills is not None)

    def queue_s(self, prompt_tokens: int, now: float) -> float:
        """Seconds until it would start a prompt of this size that arrives now."""
        if self._prefills is None:
            return 0.0
        tokens = sum(
            job.uncached_tokens
            for job in self._arrived
            if not job.is_begun and (not self._shortest_first or job.request.prompt_tokens <= prompt_tokens)
        )
        return self._done_at - now + tokens / self.prefill_tokens_per_s
