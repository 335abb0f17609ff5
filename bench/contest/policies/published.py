"""Shared by the published formulas: their request accounting, and their assumptions about caches.

Each knows only what its router knows. `beliefs` is updated by its own picks, or by KV events if its published
design has them; engines are read at its router's interval. Prompt sizes are exact for all, including ours, as
if every router had the model's tokenizer.
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
from headgate.traffic.traces import TimedRequest


class Page(NamedTuple):
    """Metrics of some engines beyond `EndpointState.reading`."""

    waiting_tokens: Callable[[], int]
    """Uncached tokens of waiting prompts; must be called immediately or never."""
    output_tokens: float
    """Tokens generated since it started."""


class Published(Policy):
    """A formula of another router. The contest calls everything except `choose`."""

    uses_prefix = True
    scrape_s = 0.0
    """How often its router reads each engine's metrics page; 0 for never."""

    sees_first_tokens = False
    """Whether its engines always stream to it, as where both are one system."""

    def __init__(self, setup: Setup, beliefs: Beliefs | None = None) -> None:
        self.setup = setup
        self.beliefs = beliefs or Nothing()
        self.prompt_blocks: dict[EndpointState, int] = defaultdict(int)
        """Blocks of the prompts in flight, from booking to end."""

    @abstractmethod
    def choose(
        self, request: Request, loads: Sequence[EndpointState], now: float, rng: random.Random
    ) -> EndpointState:
        """The endpoint that the formula selects."""

    def held(self, request: Request, load: EndpointState, now: float) -> int:
        """Leading blocks of the prompt that are assumed to be in the engine's cache."""
        return self.beliefs.held(request.prefix, load, now)

    def uncached_tokens(self, request: Request, load: EndpointState, now: float) -> int:
        """Prompt tokens that the engine is assumed to prefill."""
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
        """Its router has read an engine's page; `load.reading` has the other values."""

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """The first byte of a response arrived; without streaming, together with the last."""

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """A response is complete."""
        self.prompt_blocks[load] -= len(request.prefix)


def least(
    loads: Sequence[EndpointState], rng: random.Random, cost: Callable[[EndpointState], float]
) -> EndpointState:
    """The endpoint with the lowest cost; ties are broken randomly."""
    costs = [cost(load) for load in loads]
    best = min(costs)
    return rng.choice([load for load, each in zip(loads, costs, strict=True) if each == best])
