"""Interfaces of the plugins of a policy: filters, scorers and pickers, and what each pick gives them."""

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
    """What plugins need beyond Prefixes."""

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        """The number of blocks that each endpoint holds; blocks in slower memory count for less."""
        ...


class NoPrefixes:
    """The prefix index of a pool whose caches are unknown."""

    def matched(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[int]:
        return [0] * len(loads)

    def add(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        pass

    def weighed(self, prefix: Sequence[int], loads: Sequence[EndpointState]) -> list[float]:
        return list(self.matched(prefix, loads))


class Cycle:
    """One pick: the request, and values that are computed once for all plugins that need them."""

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
        """The endpoint that another profile has already picked for this request."""
        self._loads: Loads | None = None
        self._matched: Sequence[int] = ()

    def matched_blocks(self, loads: Loads) -> Sequence[int]:
        """For each endpoint, the number of leading blocks of the prompt that it holds; looked up once."""
        if loads is not self._loads:
            prefix = self.request.prefix
            self._matched = self.prefixes.matched(prefix, loads) if prefix else [0] * len(loads)
            self._loads = loads
        return self._matched

    def cached_tokens(self, load: EndpointState) -> int:
        """The estimated number of tokens of the prompt that an endpoint holds."""
        loads, matched = self._loads, self._matched
        blocks = matched[loads.index(load)] if loads and load in loads else self.matched_blocks([load])[0]
        return self.request.tokens_in(blocks)

    def held_tokens(self, loads: Loads) -> list[int]:
        """For each endpoint, the estimated number of leading tokens of the prompt that it holds."""
        return list(map(self.request.tokens_in, self.matched_blocks(loads)))

    def held_shares(self, loads: Loads) -> list[float]:
        """For each endpoint, the share of the prompt's leading blocks that it holds. Blocks are weighted by
        their length."""
        request, matched = self.request, self.matched_blocks(loads)
        total, ends = len(request.prefix), request.block_ends
        if not total:
            return [0.0] * len(matched)
        if not ends:
            return [count / total for count in matched]
        units = ends[total - 1]
        return [ends[count - 1] / units if count else 0.0 for count in matched]

    def is_cold(self, load: EndpointState) -> bool:
        """Whether none of the endpoints looked up so far, of which `load` is one, holds any of the prompt."""
        return not any(self._matched if self._loads is not None else self.matched_blocks([load]))


class NoParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a plugin that has none."""


class Plugin:
    """One plugin of one policy. Its state belongs to one pool."""

    kind: ClassVar[str] = ""
    """The plugin's type in configurations."""
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    """What a configuration may set, with defaults; the constructor takes an instance."""
    alpha: ClassVar[bool] = False
    """Whether the setting `scheduling.allow_experimental_plugins` must allow it."""
    uses_prefix: bool = False
    """Whether it needs matched blocks. If no plugin does, prompts are not hashed."""
    first_block_bytes: int = 0
    """Size of the blocks in a prompt's first kilobyte; 0 makes the kilobyte one block."""
    judges_adapters: ClassVar[bool] = False
    """Whether it decides by adapters. If so, the gateway does not narrow down the endpoints of an adapter."""
    remembers: ClassVar[bool] = False
    """Whether the policy must call `booked`."""
    means_one_endpoint: ClassVar[bool] = False
    """Whether it must remember only one of the two endpoints that serve a prefill/decode pair."""

    def __init__(self, parameters: msgspec.Struct | None = None) -> None:
        self.name = self.kind
        """The name of this instance in the configuration."""

    def booked(self, cycle: Cycle, load: EndpointState) -> None:
        """Called when the request is sent to the endpoint."""

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        """A header to add to the response, as name and value; None adds nothing."""
        return None


class Filter(Plugin, ABC):
    """Leaves out endpoints that should not get a request."""

    about_load: ClassVar[bool] = False
    """Whether an empty result means that all endpoints are busy (429), and not that none is suited (503)."""

    @abstractmethod
    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        """The endpoints to keep, in the same order; may be empty. `loads` has at least one."""


class Scorer(Plugin, ABC):
    """Scores how well each endpoint suits a request."""

    @abstractmethod
    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        """One score for each endpoint, higher is better: 0 to 1, or 0 to 100 for Kthena's plugins."""


class Picker(Plugin, ABC):
    """Picks one endpoint by the total scores."""

    @abstractmethod
    def pick(self, totals: Sequence[float], rng: random.Random) -> int:
        """The index of the picked endpoint; `totals` has at least one."""
