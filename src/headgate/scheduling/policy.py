"""What every way of choosing an endpoint has in common: asked for a choice, told what became of it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.request import Choice, Request


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a policy sends a request to none of the endpoints that may be asked."""

    why: str
    is_busy: bool = False
    """Whether it passes by itself, as all are busy: the client may try again soon."""


class Policy(ABC):
    """Chooses among endpoints that may be asked. One object for each pool, which outlives snapshots.

    A choice changes nothing: it may be a question only. What is remembered of choices (turns, sessions,
    prefixes) is noted in `booked`, before the next choice, so that a burst of requests does not herd.
    """

    name: str = ""
    """What it is called where it is shown."""
    uses_prefix: bool = False
    """Whether it looks at the hashes of a prompt: otherwise they are not computed."""
    first_block_bytes: int = 0
    """How long the blocks are to be that are hashed of a prompt's first kilobyte; 0 if it is one block."""
    judges_decoding: bool = True
    """Whether it tells endpoints apart that only decode; otherwise LeastDecoding picks those."""
    judges_adapters: bool = False
    """Whether it tells endpoints apart by their adapters itself."""
    remote_tokens: int | None = None
    """From how many uncached tokens on another endpoint is to prefill, where a pool has such; None leaves it
    to the gateway."""
    marks_answers: bool = False
    """Whether answers get headers of its own."""

    @abstractmethod
    def pick(
        self, request: Request, candidates: Sequence[EndpointState], now: float, rng: random.Random
    ) -> Choice | None:
        """One of the candidates, of which there is at least one; None if the policy refuses them all.

        `now` is in monotonic seconds; ties are broken by `rng`.
        """

    def booked(self, request: Request, choice: Choice, now: float) -> None:  # noqa: B027 - most remember nothing
        """The choice is made: the request is on its way to the endpoint, and in its ledger."""

    def why(self, request: Request, load: EndpointState, choice: Choice, now: float) -> str:
        """Why a candidate got the request, or why it did not; for explanations."""
        return "picked" if load is choice.load else "another was picked"

    def reasons(
        self, request: Request, candidates: Sequence[EndpointState], choice: Choice | None, now: float
    ) -> Mapping[EndpointState, str]:
        """Why each of the candidates got the request, or did not; `choice` is None where all were refused."""
        if choice is None:
            return dict.fromkeys(candidates, "the policy refuses all")
        return {load: self.why(request, load, choice, now) for load in candidates}

    def refusal(self, request: Request, candidates: Sequence[EndpointState], now: float) -> Refused:
        """Why `pick` refused all of the candidates."""
        return Refused(why="the policy refuses them all")

    def failures(self) -> Mapping[str, int]:
        """How often each part of it that is a user's own has failed."""
        return {}

    def marks(self, request: Request, choice: Choice) -> Sequence[tuple[bytes, bytes]]:
        """Headers that the answer of the chosen endpoint is to have; asked only if `marks_answers`."""
        return ()
