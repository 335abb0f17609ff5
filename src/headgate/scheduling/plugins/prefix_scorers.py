"""Scorers by how much of a prompt an endpoint's cache holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.parameters import Producer, Share, unused
from headgate.scheduling.plugins.plugin import Cycle, Loads, Scorer

LONG_MATCH_TOKENS = 8192
_OWN_INDEX = "the gateway keeps one index, fed with the events of engines that publish them"


class PrefixCacheParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prefix_match_info_producer_name: Producer = ""
    match_length_weight: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    prefix_length_weight: Share = 0.0
    max_model_len: Annotated[int, msgspec.Meta(ge=1)] = LONG_MATCH_TOKENS
    block_size: Annotated[int, unused(_OWN_INDEX)] = 64
    hash_block_size: Annotated[int, unused(_OWN_INDEX)] = 64
    max_prefix_blocks_to_match: Annotated[int, unused(_OWN_INDEX)] = 256
    lru_capacity_per_server: Annotated[int, unused(_OWN_INDEX)] = 31_250
    auto_tune: Annotated[bool, unused(_OWN_INDEX)] = True
    mode: Annotated[str, unused(_OWN_INDEX)] = ""
    indexer_config: Annotated[dict[str, Any], unused(_OWN_INDEX)] = {}
    kv_events_config: Annotated[dict[str, Any], unused(_OWN_INDEX)] = {}


class PrefixCacheScorer(Scorer):
    """Matched blocks / all blocks of the prompt. With `matchLengthWeight` w, long matches score more than
    their share: + w x l, at most 1 in total, where l = (min(1, matched tokens / 8192))^2; with the older
    `prefixLengthWeight` w, (1 - w) x share + w x l, with `maxModelLen` instead of 8192."""

    kind = "prefix-cache-scorer"
    Parameters = PrefixCacheParameters
    uses_prefix = True

    def __init__(self, parameters: PrefixCacheParameters | None = None) -> None:
        super().__init__()
        self._said = parameters or PrefixCacheParameters()
        self._is_plain = not (self._said.match_length_weight or self._said.prefix_length_weight)

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        shares = cycle.held_shares(loads)
        if self._is_plain:
            return shares
        said = self._said
        older = said.prefix_length_weight
        weight = older or said.match_length_weight
        most = said.max_model_len if older else LONG_MATCH_TOKENS
        return [
            min(1.0, (1.0 - older) * share + weight * min(1.0, tokens / most) ** 2)
            for share, tokens in zip(shares, cycle.held_tokens(loads), strict=True)
        ]


class NoHitLruParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    lru_size: Annotated[int, msgspec.Meta(ge=1)] = 1024
    prefix_match_info_producer_name: Producer = ""
    prefix_plugin_type: str = ""
    prefix_plugin_name: str = ""


class NoHitLruScorer(Scorer):
    """Spreads prompts that no cache holds: 1 - i / (n - 1) for the i-th in order of its last such prompt,
    endpoints without one first. 0.5 for all if some endpoint holds a part of the prompt."""

    kind = "no-hit-lru-scorer"
    Parameters = NoHitLruParameters
    uses_prefix = True
    remembers = True

    def __init__(self, parameters: NoHitLruParameters | None = None) -> None:
        super().__init__()
        self._size = (parameters or NoHitLruParameters()).lru_size
        self._used: OrderedDict[EndpointState, None] = OrderedDict()
        """Least recently used first."""

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        if any(cycle.matched_blocks(loads)):
            return [0.5] * len(loads)
        if len(loads) == 1:
            return [1.0]
        ages = {load: age for age, load in enumerate(self._used)}
        order = sorted(range(len(loads)), key=lambda place: ages.get(loads[place], -1))
        scores = [0.0] * len(loads)
        for rank, place in enumerate(order):
            scores[place] = 1.0 - rank / (len(loads) - 1)
        return scores

    def booked(self, cycle: Cycle, load: EndpointState) -> None:
        if cycle.is_cold(load):
            self._used.pop(load, None)
            self._used[load] = None
            while len(self._used) > self._size:
                self._used.popitem(last=False)


class PreciseParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prefix_match_info_producer_name: Producer = ""
    token_processor_config: Annotated[dict[str, object], unused(_OWN_INDEX)] = {}
    indexer_config: Annotated[dict[str, object], unused(_OWN_INDEX)] = {}
    kv_events_config: Annotated[
        dict[str, object],
        unused("--kv-events-config of engines is read; headgate.dev/kv-events goes before it"),
    ] = {}
    kv_cache_backend_configs: Annotated[list[object], unused(_OWN_INDEX)] = []
    speculative_indexing: Annotated[bool, unused("a prompt counts as held as soon as it is sent")] = True


class PrecisePrefixCacheScorer(Scorer):
    """Leading blocks held, weighted by tier, divided by the most that any endpoint has."""

    kind = "precise-prefix-cache-scorer"
    Parameters = PreciseParameters
    uses_prefix = True

    def __init__(self, parameters: PreciseParameters | None = None) -> None:
        super().__init__()

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        prefix = cycle.request.prefix
        worth = cycle.prefixes.weighed(prefix, loads) if prefix else [0.0] * len(loads)
        most = max(worth)
        return [each / most for each in worth] if most else worth
