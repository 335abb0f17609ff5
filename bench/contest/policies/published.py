"""What the published formulas have in common: their account of requests, and what they believe of caches.

Each knows what its router knows, and no more. `beliefs` is its own, fed by its picks, or by KV events where
its published design has them; engines are read at its router's interval. Sizes of prompts are exact for all,
ours included, as if every router had the model's tokenizer.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from contest.beliefs import Beliefs, Nothing
from contest.replicas import BLOCK_TOKENS
from contest.setup import Setup
from headgate.fleet import EndpointState
from headgate.scheduling import Choice, Policy, Request
from headgate.simulator.traces import TimedRequest


class Page(NamedTuple):
    """What some engines report beyond `EndpointState.reading`."""

    waiting_tokens: Callable[[], int]
    """Uncached tokens of the prompts that wait; to be called at once or never."""
    output_tokens: float
    """Tokens generated since it began."""


class Published(Policy):
    """A formula of another router. Everything but `choose` is called by the contest."""

    uses_prefix = True
    scrape_s = 0.0
    """How often its router reads each engine's page; 0 for never."""

    sees_first_tokens = False
    """Whether its engines stream to it whatever the client asked for, as where both are one system."""

    def __init__(self, setup: Setup, beliefs: Beliefs | None = None) -> None:
        self.setup = setup
        self.beliefs = beliefs or Nothing()
        self.prompt_blocks: dict[EndpointState, int] = defaultdict(int)
        """Blocks of the prompts in flight, from booking to end."""

    @abstractmethod
    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        """The endpoint by the formula."""

    def held(self, request: Request, load: EndpointState, now: float) -> int:
        """Blocks of the prompt that it believes to be in the engine's cache, from the front."""
        return self.beliefs.held(request.prefix, load, now)

    def uncached_tokens(self, request: Request, load: EndpointState, now: float) -> int:
        """Tokens of the prompt that it believes the engine would prefill."""
        return max(0, request.prompt_tokens - BLOCK_TOKENS * self.held(request, load, now))

    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice:
        load = self.choose(request, candidates, now, rng)
        cached = request.prompt_tokens - self.uncached_tokens(request, load, now)
        return Choice(load=load, cached_tokens=cached)

    def booked(self, request: Request, choice: Choice, now: float) -> None:
        self.prompt_blocks[choice.load] += len(request.prefix)
        self.beliefs.booked(request.prefix, choice.load, now)

    def scraped(self, load: EndpointState, page: Page, now: float) -> None:
        """Its router has read an engine's page; `load.reading` has the rest of it."""

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """The first byte of an answer is here; if it is not streamed, together with the last."""

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """An answer is complete."""
        self.prompt_blocks[load] -= len(request.prefix)


def least(
    loads: Sequence[EndpointState], rng: random.Random, cost: Callable[[EndpointState], float]
) -> EndpointState:
    """The one of the least cost; ties are broken by chance."""
    costs = [cost(load) for load in loads]
    best = min(costs)
    return rng.choice([load for load, each in zip(loads, costs, strict=True) if each == best])
