"""Preble's E2 scheduling (ICLR '25, arXiv 2407.00023; constants of its code).

Exploit: where more of a prompt is cached than is missing, it goes to the engine with the longest match, of
several to the one with the least load. If that has the most load of all, and more than 1.5 times that of the
lightest, it goes to the lightest. Explore otherwise: least of load + eviction + prefill in seconds, where

load      prefill of what was missing, over the requests sent there in the last 3 minutes; and for each one in
          flight, the usual length of an answer at the usual pace (recent medians, at first 45 tokens, 0.15 s)
eviction  prefill of the blocks that would leave, for each request of the last 3 minutes that had them
prefill   of what is missing here

Seconds of prefill are tokens over a rate that its operator measures; all engines count as equal. It believes
its own picks, as much as an engine's cache holds: its engines report what they evict, and stream to it
always. Not modeled: a prefix
whose requests wait twice as long as before is copied to a second engine.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from contest.beliefs import OwnPicks
from contest.policies.published import Published, least
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Choice, Request
from headgate.traffic.traces import TimedRequest

WINDOW_S = 180.0
BALANCE = 1.5
FIRST_TPOT_S, FIRST_ANSWER_TOKENS = 0.15, 45
REMEMBERED = 200


class E2(Published):
    sees_first_tokens = True

    def __init__(self, setup: Setup) -> None:
        self._caches = OwnPicks(setup.cache_blocks)
        super().__init__(setup, self._caches)
        self._window: deque[tuple[float, EndpointState, int, Sequence[int]]] = deque()
        self._missed_tokens: dict[EndpointState, int] = defaultdict(int)
        self._used: dict[EndpointState, Counter[int]] = defaultdict(Counter)
        """How many requests of the window had each block."""
        self._began: dict[int, float] = {}
        self._tpots_s: dict[EndpointState, deque[float]] = defaultdict(
            lambda: deque([FIRST_TPOT_S], maxlen=REMEMBERED)
        )
        self._answers: deque[int] = deque([FIRST_ANSWER_TOKENS], maxlen=REMEMBERED)
        self._decode_s: dict[EndpointState, float] = defaultdict(lambda: FIRST_TPOT_S * FIRST_ANSWER_TOKENS)

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        self._expire(now)
        held = {load: self.held(request, load, now) for load in loads}
        longest = max(held.values())
        load_s = {load: self._load_s(load) for load in loads}
        if 2 * longest * BLOCK_TOKENS > request.prompt_tokens:
            best = least([load for load in loads if held[load] == longest], rng, load_s.__getitem__)
            lightest = least(loads, rng, load_s.__getitem__)
            is_heaviest = load_s[best] == max(load_s.values()) > BALANCE * load_s[lightest]
            return lightest if is_heaviest else best
        return least(
            loads,
            rng,
            lambda load: (
                load_s[load]
                + self._eviction_s(load, len(request.prefix) - held[load])
                + self._prefill_s(self.uncached_tokens(request, load, now))
            ),
        )

    def _prefill_s(self, tokens: int) -> float:
        return tokens / self.setup.prefill_tokens_per_s

    def _load_s(self, load: EndpointState) -> float:
        return self._prefill_s(self._missed_tokens[load]) + load.requests * self._decode_s[load]

    def _eviction_s(self, load: EndpointState, blocks: int) -> float:
        used = self._used[load]
        return self._prefill_s(
            BLOCK_TOKENS * sum(used[block] for block in self._caches.would_evict(load, blocks))
        )

    def _expire(self, now: float) -> None:
        while self._window and self._window[0][0] < now - WINDOW_S:
            _, load, tokens, prefix = self._window.popleft()
            self._missed_tokens[load] -= tokens
            self._used[load].subtract(prefix)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        missed = request.prompt_tokens - choice.cached_tokens
        super().booked(request, choice, now)
        self._window.append((now, choice.load, missed, request.prefix))
        self._missed_tokens[choice.load] += missed
        self._used[choice.load].update(request.prefix)

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        self._began[id(request)] = now

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        super().ended(request, load, now)
        took_s = now - self._began.pop(id(request), now)
        self._answers.append(request.output_tokens)
        if took_s > 0.0 and request.output_tokens > 1:
            self._tpots_s[load].append(took_s / (request.output_tokens - 1))
        self._decode_s[load] = statistics.median(self._tpots_s[load]) * statistics.median(self._answers)
