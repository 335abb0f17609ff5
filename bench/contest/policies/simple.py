"""Those that do not look at caches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, View, least
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request


class Random(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        return rng.choice(loads)


class RoundRobin(Published):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._turn = 0

    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        self._turn += 1
        return loads[self._turn % len(loads)]


class LeastRequest(Published):
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        return least(loads, rng, lambda load: load.requests)


class LeastWorkSeconds(Published):
    """The shortest queue in seconds, whatever the caches hold."""

    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        return least(loads, rng, lambda load: self.view.queue_s(load, now))
