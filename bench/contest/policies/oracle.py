"""The oracle: it knows when each replica will be free, what its cache will hold, and how fast it is."""

from __future__ import annotations

import random
from collections.abc import Sequence

from contest.policies.published import Published, View, least
from headgate.fleet import EndpointLoad
from headgate.scheduling import Request
from headgate.scheduling.predicted import DELAYED_PER_WAITING, MOST_DELAYED


class Soonest(Published):
    """The first token soonest."""

    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        return least(
            loads, rng, lambda load: self.queue_s(load, now) + self.price() * self.prefill_s(request, load)
        )

    def queue_s(self, load: EndpointLoad, now: float) -> float:
        return self.view.queue_s(load, now)

    def prefill_s(self, request: Request, load: EndpointLoad) -> float:
        return self.view.uncached_tokens(request, load) / self.view.fleet.prefill_tokens_per_s

    def price(self) -> float:
        return 1.0


class Priced(Soonest):
    """The default policy's formula on exact figures."""

    def price(self) -> float:
        waiting = sum(self.waiting.values()) / self.view.fleet.replicas
        return 1.0 + min(DELAYED_PER_WAITING * waiting, MOST_DELAYED)


class Sticky(Soonest):
    """The most cached of those within half a second of the soonest."""

    def __init__(self, view: View, stickiness_s: float = 0.5) -> None:
        super().__init__(view)
        self._stickiness_s = stickiness_s

    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        first_s = {load: self.queue_s(load, now) + self.prefill_s(request, load) for load in loads}
        bound = min(first_s.values()) + self._stickiness_s
        near = [load for load in loads if first_s[load] <= bound]
        most = max(self.view.held(request, load) for load in near)
        near = [load for load in near if self.view.held(request, load) == most]
        return least(near, rng, lambda load: first_s[load])
