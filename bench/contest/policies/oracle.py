"""Oracles: they know when each replica will be free, what its cache will contain, and how fast it is."""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.beliefs import OwnPicks
from contest.policies.published import Published, least
from contest.setup import Setup, Truth
from headgate.fleet import EndpointState
from headgate.scheduling import Request
from headgate.scheduling.predicted import DELAYED_PER_WAITING, MAX_DELAYED


class Soonest(Published):
    """Picks the earliest first token. With prompts in order, its assumed cache contents are exact."""

    def __init__(self, setup: Setup, truth: Truth) -> None:
        super().__init__(setup, OwnPicks(setup.cache_blocks))
        self.truth = truth

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        delayed_s = self.delayed(loads) * len(loads) / sum(map(self.truth.prefill_tokens_per_s, loads))
        return least(
            loads,
            rng,
            lambda load: (
                self.truth.queue_s(request, load, now)
                + self.prefill_s(request, load, now)
                + delayed_s * self.uncached_tokens(request, load, now)
            ),
        )

    def prefill_s(self, request: Request, load: EndpointState, now: float) -> float:
        return self.uncached_tokens(request, load, now) / self.truth.prefill_tokens_per_s(load)

    def delayed(self, loads: Sequence[EndpointState]) -> float:
        """Number of requests that a prefill is assumed to delay."""
        return 0.0


class Priced(Soonest):
    """The default policy's formula with exact figures."""

    def delayed(self, loads: Sequence[EndpointState]) -> float:
        waiting = sum(map(self.truth.waiting, loads)) / len(loads)
        return min(DELAYED_PER_WAITING * waiting, MAX_DELAYED)


class Sticky(Soonest):
    """The most cached of those within half a second of the earliest."""

    STICKINESS_S = 0.5

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        first_s = {
            load: self.truth.queue_s(request, load, now) + self.prefill_s(request, load, now)
            for load in loads
        }
        bound = min(first_s.values()) + self.STICKINESS_S
        near = [load for load in loads if first_s[load] <= bound]
        held = {load: self.held(request, load, now) for load in near}
        most = max(held.values())
        return least([load for load in near if held[load] == most], rng, lambda load: first_s[load])
