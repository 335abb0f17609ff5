"""What the published formulas have in common: they are told of first tokens and ends, and see the caches.

Each gets more than it would have in its own router: what a cache holds is exact and at once, where the router
has events, or a tree of its own, for it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence

from contest.replicas import BLOCK_TOKENS, Fleet
from headgate.fleet import EndpointLoad
from headgate.scheduling import Choice, Policy, Request
from headgate.simulator.traces import TimedRequest


class View(ABC):
    """What a competitor may look at, beyond what `Policy.pick` is given."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    @abstractmethod
    def held(self, request: Request, load: EndpointLoad) -> int:
        """Blocks of the prompt in the engine's cache, from the front."""

    @abstractmethod
    def queue_s(self, load: EndpointLoad, now: float) -> float:
        """Seconds until the engine has prefilled what it has."""

    def uncached_tokens(self, request: Request, load: EndpointLoad) -> int:
        """Tokens of the prompt that the engine would prefill."""
        return max(0, request.prompt_tokens - BLOCK_TOKENS * self.held(request, load))


class Published(Policy):
    """A formula of another router. `first_token` and `ended` are called by the contest."""

    uses_prefix = True

    def __init__(self, view: View) -> None:
        self.view = view
        self.prompt_blocks: dict[EndpointLoad, int] = defaultdict(int)
        """Blocks of the prompts in flight, from booking to end."""
        self.waiting: dict[EndpointLoad, int] = defaultdict(int)
        """Requests without a first token."""

    @abstractmethod
    def choose(
        self, request: Request, loads: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> EndpointLoad:
        """The endpoint by the formula."""

    def pick(
        self, request: Request, candidates: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> Choice:
        load = self.choose(request, candidates, now, rng)
        cached = request.prompt_tokens - self.view.uncached_tokens(request, load)
        return Choice(load=load, cached_tokens=cached)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        self.prompt_blocks[choice.load] += len(request.prefix)
        self.waiting[choice.load] += 1

    def first_token(self, request: TimedRequest, load: EndpointLoad) -> None:
        self.waiting[load] -= 1

    def ended(self, request: TimedRequest, load: EndpointLoad) -> None:
        self.prompt_blocks[load] -= len(request.prefix)


def least(
    loads: Sequence[EndpointLoad], rng: random.Random, cost: Callable[[EndpointLoad], float]
) -> EndpointLoad:
    """The one of the least cost; ties are broken by chance."""
    costs = [cost(load) for load in loads]
    best = min(costs)
    return rng.choice([load for load, each in zip(loads, costs, strict=True) if each == best])
