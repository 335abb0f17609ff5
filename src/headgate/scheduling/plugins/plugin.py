"""What plugins of a policy are told and what they answer: filters, scorers and pickers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.prefixes import Prefixes
from headgate.scheduling.request import Request

Loads = Sequence[EndpointState]


class PrefixIndex(Prefixes, Protocol):
    """What plugins ask of it besides."""

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        """Of each endpoint, how many blocks it holds, of which slower memories count for less."""
        ...


class NoPrefixes:
    """Where nothing is known of caches."""

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        return [0] * len(loads)

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        pass

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        return list(self.matched(prefix, loads))


class Cycle:
    """One pick: the request, and what is worked out once for all plugins that want it."""

    __slots__ = ("_loads", "_matched", "now", "peer", "prefixes", "request", "rng")

    def __init__(
        self,
        request: Request,
        now: float,
        rng: random.Random,
        prefixes: PrefixIndex,
        peer: EndpointState | None = None,
    ) -> None:
        self.request = request
        self.now = now
        """Monotonic seconds."""
        self.rng = rng
        self.prefixes = prefixes
        self.peer = peer
        """The endpoint that another profile has picked for this request already."""
        self._loads: Loads | None = None
        self._matched: Sequence[int] = ()

    def matched_blocks(self, loads: Loads) -> Sequence[int]:
        """Of each endpoint, how many blocks of the prompt it holds from the front; looked up once."""
        if loads is not self._loads:
            prefix = self.request.prefix
            self._matched = self.prefixes.matched(prefix, loads) if prefix else [0] * len(loads)
            self._loads = loads
        return self._matched

    def cached_tokens(self, load: EndpointState) -> int:
        """Tokens of the prompt that an endpoint holds, as estimated."""
        loads, matched = self._loads, self._matched
        blocks = matched[loads.index(load)] if loads and load in loads else self.matched_blocks([load])[0]
        return self.request.tokens_in(blocks)

    def held_tokens(self, loads: Loads) -> list[int]:
        """Of each endpoint, about how many tokens of the prompt it holds from the front."""
        return list(map(self.request.tokens_in, self.matched_blocks(loads)))

    def held_shares(self, loads: Loads) -> list[float]:
        """Of each endpoint, which share of the prompt's blocks it holds from the front; long blocks count for
        as many as they are long."""
        request, matched = self.request, self.matched_blocks(loads)
        total, ends = len(request.prefix), request.block_ends
        if not total:
            return [0.0] * len(matched)
        if not ends:
            return [count / total for count in matched]
        units = ends[total - 1]
        return [ends[count - 1] / units if count else 0.0 for count in matched]

    def is_cold(self, load: EndpointState) -> bool:
        """Whether none of the endpoints that were asked about holds a part of the prompt; `load` is one."""
        return not any(self._matched if self._loads is not None else self.matched_blocks([load]))


class NoParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Of plugins that have none."""


class Plugin:
    """One plugin of one policy. What it remembers is of one pool."""

    kind: ClassVar[str] = ""
    """Its name in configurations."""
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    """What a configuration may say, with the defaults; the constructor takes one of it."""
    alpha: ClassVar[bool] = False
    """Whether configurations have to allow it expressly."""
    uses_prefix: bool = False
    """Whether it asks for matched blocks: otherwise prompts are not hashed."""
    first_block_bytes: int = 0
    """How long the blocks are to be that are hashed of a prompt's first kilobyte; 0 if it is one block."""
    judges_adapters: ClassVar[bool] = False
    """Whether it is about adapters: then nothing else narrows down where those go."""
    remembers: ClassVar[bool] = False
    """Whether `booked` is to be called."""
    means_one_endpoint: ClassVar[bool] = False
    """Whether, of a request that two endpoints serve, it is to remember only one."""

    def __init__(self, parameters: msgspec.Struct | None = None) -> None:
        self.name = self.kind
        """What the configuration calls this one."""

    def booked(self, cycle: Cycle, load: EndpointState) -> None:
        """The request is on its way to the endpoint."""

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        """A header that the endpoint's answer is to have."""
        return None


class Filter(Plugin, ABC):
    """Leaves out endpoints that must not, or need not, get a request."""

    about_load: ClassVar[bool] = False
    """Whether nobody is left because all are busy, which passes, and not because none is suited."""

    @abstractmethod
    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        """Those of the endpoints (at least one) that are left, in their order; perhaps none."""


class Scorer(Plugin, ABC):
    """Says how well each endpoint suits a request."""

    @abstractmethod
    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        """One score for each endpoint, the higher the better: from 0 to 1, Kthena's whole from 0 to 100."""


class Picker(Plugin, ABC):
    """Takes one of the endpoints by their total scores."""

    @abstractmethod
    def pick(self, totals: Sequence[float], rng: random.Random) -> int:
        """The place of the one that is taken; there is at least one."""
