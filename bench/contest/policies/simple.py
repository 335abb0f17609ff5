"""Policies that ignore caches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, least
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Request


class Random(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        return rng.choice(loads)


class RoundRobin(Published):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._turn = 0

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        self._turn += 1
        return loads[self._turn % len(loads)]


class LeastRequest(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        return least(loads, rng, lambda load: load.requests)


class LeastWorkSeconds(Published):
    """The shortest queue in seconds, as our estimator learns it, ignoring caches."""

    scrape_s = 1.0

    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        return least(loads, rng, lambda load: load.estimator.queue_s(now))
