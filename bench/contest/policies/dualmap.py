"""DualMap: two hashes of the prompt's beginning select two endpoints (arXiv 2602.06502).

Of the two, it takes the one with more of the prompt cached while its predicted TTFT is within the objective;
else the one with the lower TTFT. The hashed beginning adapts: it is the shortest one shared by no more than
an even part of recent requests. TTFT is predicted as the uncached tokens in flight without a first token,
over a measured rate; cache contents are assumed from its own picks.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence

from contest.beliefs import OwnPicks
from contest.policies.published import Published
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Choice, Request

OBJECTIVE_S = 2.0
RECENT = 2000


class DualMap(Published):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, OwnPicks(setup.cache_blocks))
        self._recent: deque[Sequence[int]] = deque()
        self._seen: Counter[int] = Counter()

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        key = self._key(request.prefix, len(loads))
        pair = [loads[random.Random(2 * key + which).randrange(len(loads))] for which in (0, 1)]
        first_s = {load: self._first_token_s(request, load, now) for load in pair}
        within = [load for load in pair if first_s[load] <= OBJECTIVE_S]
        if within:
            return max(within, key=lambda load: (self.held(request, load, now), -first_s[load]))
        return min(pair, key=lambda load: first_s[load])

    def _first_token_s(self, request: Request, load: EndpointState, now: float) -> float:
        tokens = load.prefill_tokens + self.uncached_tokens(request, load, now)
        return tokens / self.setup.prefill_tokens_per_s

    def _key(self, prefix: Sequence[int], endpoints: int) -> int:
        """The first block that distinguishes this prompt from most; its hash covers all blocks before it."""
        most = max(1, len(self._recent)) / endpoints
        for block in prefix:
            if self._seen[block] <= most:
                return block
        return prefix[-1] if prefix else 0

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        super().booked(request, choice, now)
        self._recent.append(request.prefix)
        self._seen.update(request.prefix)
        if len(self._recent) > RECENT:
            self._seen.subtract(self._recent.popleft())
