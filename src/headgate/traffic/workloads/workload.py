"""Shared by all generated traffic: its amount, and prompts made of blocks."""

from __future__ import annotations

import itertools
import math
import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from headgate.traffic.traces import TimedRequest

MAX_TOKENS = 10_000_000


def says(description: str, *, ge: float | None = None, le: float | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=description, ge=ge, le=le)


def tokens(of: str) -> msgspec.Meta:
    """An average around which lengths vary."""
    return says(f"Tokens of {of}, on average.", ge=1, le=MAX_TOKENS)


def fixed_tokens(of: str) -> msgspec.Meta:
    return says(f"Tokens of {of}.", ge=1, le=MAX_TOKENS)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One pattern; its fields are the parameters."""

    requests: Annotated[int, says("Requests in all.", ge=1, le=10_000_000)] = 1000
    rate: Annotated[float, says("Requests a second, at random times.", ge=0.001, le=1e6)] = 10.0
    variation: Annotated[
        float, says("How far lengths lie around their average: their deviation as a share of it.", ge=0, le=5)
    ] = 0.3
    block_tokens: Annotated[int, says("Tokens in one block of a prompt.", ge=1, le=65_536)] = 64

    @abstractmethod
    def generate(self, rng: random.Random) -> list[TimedRequest]:
        """The requests, in order of arrival."""

    def arrivals(self, rng: random.Random) -> Iterator[float]:
        """Endless times of independent requests (a Poisson process), the first at 0."""
        at_s = 0.0
        while True:
            yield at_s
            at_s += rng.expovariate(self.rate)

    def length(self, mean: float, rng: random.Random) -> int:
        """A random number of tokens around a mean: lognormal, at least 1."""
        if not self.variation:
            return max(1, round(mean))
        variance = math.log1p(self.variation**2)
        return max(1, round(rng.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))))


class Blocks:
    """Generates block hashes: each prompt's own, after those that it shares."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._next = itertools.count()

    def full(self, of_tokens: int) -> tuple[int, ...]:
        """New hashes for the full blocks of a text."""
        return tuple(itertools.islice(self._next, of_tokens // self.block_tokens))

    def behind(self, full: Sequence[int], tokens: int) -> tuple[int, ...]:
        """New hashes for the full blocks that a text of `tokens` tokens has after `full`."""
        return tuple(itertools.islice(self._next, tokens // self.block_tokens - len(full)))

    def prompt(self, shared: Sequence[int], prompt_tokens: int) -> tuple[int, ...]:
        """The hashes of a prompt that begins with the shared blocks, followed by its own."""
        needed = -(-prompt_tokens // self.block_tokens)
        kept = tuple(shared[: prompt_tokens // self.block_tokens])
        return kept + tuple(itertools.islice(self._next, needed - len(kept)))
