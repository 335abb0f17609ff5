"""What every way of choosing an endpoint has in common: asked for a choice, told what became of it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from headgate.fleet import EndpointLoad
from headgate.scheduling.request import Request


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint that gets a request, and what is expected of it there."""

    load: EndpointLoad
    cached_tokens: int = 0
    """Of the prompt, as far as the endpoint's cache is believed to hold it."""
    first_token_s: float | None = None
    """Predicted seconds until the first token; None where the policy predicts nothing."""


class Policy(ABC):
    """Chooses among endpoints that may be asked. One object for each pool, which outlives snapshots.

    A choice changes nothing: it may be a question only. What is remembered of choices (turns, sessions,
    prefixes) is noted in `booked`, before the next choice, so that a burst of requests does not herd.
    """

    uses_prefix: ClassVar[bool] = False
    """Whether it looks at the hashes of a prompt: otherwise they are not computed."""

    @abstractmethod
    def pick(
        self, request: Request, candidates: Sequence[EndpointLoad], now: float, rng: random.Random
    ) -> Choice | None:
        """One of the candidates, of which there is at least one; None if the policy refuses them all.

        `now` is in monotonic seconds; ties are broken by `rng`.
        """

    def booked(self, request: Request, choice: Choice, now: float) -> None:  # noqa: B027 - most remember nothing
        """The choice is made: the request is on its way to the endpoint, and in its ledger."""

    def why(self, request: Request, load: EndpointLoad, choice: Choice, now: float) -> str:
        """Why a candidate got the request, or why it did not; for explanations."""
        return "picked" if load is choice.load else "another was picked"
