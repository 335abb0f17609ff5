"""The common interface of scheduling policies."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.request import Choice, Request


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a policy refuses all eligible endpoints."""

    why: str
    is_busy: bool = False
    """Whether this is temporary because all are busy: the client may retry soon."""


class Policy(ABC):
    """Chooses among eligible endpoints. One object per pool, which outlives snapshots.

    A choice changes nothing: it may be only a query. State about choices (turns, sessions, prefixes) is
    updated in `booked`, before the next choice, so that a burst of requests does not herd.
    """

    name: str = ""
    """The name for display."""
    uses_prefix: bool = False
    """Whether it uses the hashes of a prompt; otherwise they are not computed."""
    first_block_bytes: int = 0
    """Length of the blocks within a prompt's first kilobyte; 0 makes the kilobyte one block."""
    judges_decoding: bool = True
    """Whether it ranks endpoints that only decode; otherwise LeastDecoding picks those."""
    judges_adapters: bool = False
    """Whether it handles adapters itself."""
    remote_tokens: int | None = None
    """The least number of uncached tokens for which another endpoint prefills, in pools with such endpoints;
    None leaves it to the gateway."""
    marks_responses: bool = False
    """Whether it adds headers to responses."""

    @abstractmethod
    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        """One of the candidates, of which there is at least one; None if the policy refuses all.

        `now` is in monotonic seconds; ties are broken by `rng`.
        """

    def booked(self, request: Request, choice: Choice, now: float) -> None:  # noqa: B027 - most keep no state
        """Record that the request is on its way to the chosen endpoint, and in its ledger."""

    def weigh(self, weights: Mapping[EndpointState, float]) -> None:  # noqa: B027 - most use none
        """Take the shares of the requests that endpoints should get, relative to each other; empty if nobody
        has given any."""

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        """Why a candidate was picked or not; for explanations."""
        return "picked" if load is choice.load else "another was picked"

    def reasons(
        self, request: Request, candidates: Sequence[EndpointState], choice: Choice | None, now: float
    ) -> Mapping[EndpointState, str]:
        """Why each of the candidates was picked or not; `choice` is None if all were refused."""
        if choice is None:
            return dict.fromkeys(candidates, "the policy refuses all")
        return {load: self.why(request, load, choice, now) for load in candidates}

    def scores(
        self, request: Request, candidates: Sequence[EndpointState], now: float
    ) -> Mapping[EndpointState, float]:
        """The scores of candidates, of which the greatest is the best; empty if the policy has none. A
        candidate that it does not consider has none either."""
        return {}

    def refusal(self, request: Request, candidates: Sequence[EndpointState], now: float) -> Refused:
        """Why `pick` refused all candidates."""
        return Refused(why="the policy refuses them all")

    def failures(self) -> Mapping[str, int]:
        """Failures of plugins from other packages, by name."""
        return {}

    def marks(self, request: Request, choice: Choice) -> Sequence[tuple[bytes, bytes]]:
        """Headers to add to the response of the chosen endpoint; called only if `marks_responses`."""
        return ()
