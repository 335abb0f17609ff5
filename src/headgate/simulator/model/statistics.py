"""Statistics of an engine, readable at any time."""

from __future__ import annotations

import msgspec

from headgate.simulator.model.sequence import Sequence


class EngineStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the engine; the `_total` fields only grow."""

    running: int
    waiting: int
    kv_blocks: int
    kv_blocks_used: int
    kv_blocks_cached: int
    """Blocks that can be found by a hash, held by a request or not."""
    adapters_running: frozenset[str]
    adapters_waiting: frozenset[str]
    """Adapters that waiting requests use."""
    adapters_loaded: tuple[str, ...]
    """In use or not, least recently used first."""
    max_adapters: int
    adapter_loads_total: int
    submitted_total: int
    finished_total: int
    refused_total: int
    preempted_total: int
    steps_total: int
    busy_s_total: float
    prefill_tokens_total: int
    """Includes tokens prefilled again after a preemption; excludes cached ones."""
    output_tokens_total: int
    prefix_queries_total: int
    """Prompt tokens of requests that started, each request counted once."""
    prefix_hits_total: int
    """Those of them found in GPU memory."""
    host_hits_total: int
    """Those of them found in host memory."""
    disk_hits_total: int
    """Those of them found on disk."""
    remote_hits_total: int
    """Those of them found in the shared store."""
    received_total: int
    """Those of the others that another engine had computed for this one."""
    drafts_total: int
    """How often tokens were drafted for a sequence."""
    draft_tokens_total: int
    accepted_tokens_total: int
    accepted_by_position: dict[int, int]
    """How often the first drafted token was accepted (0), the second (1), ..."""

    @property
    def kv_usage(self) -> float:
        """Share of blocks held by requests; idle cached blocks do not count."""
        return self.kv_blocks_used / self.kv_blocks


class Totals(msgspec.Struct):
    """Counters of an engine since its start, named after its statistics."""

    submitted_total: int = 0
    finished_total: int = 0
    refused_total: int = 0
    preempted_total: int = 0
    steps_total: int = 0
    prefill_tokens_total: int = 0
    output_tokens_total: int = 0
    prefix_queries_total: int = 0
    prefix_hits_total: int = 0
    host_hits_total: int = 0
    disk_hits_total: int = 0
    remote_hits_total: int = 0
    received_total: int = 0

    def starts(self, sequence: Sequence) -> None:
        """A request starts for the first time; count the cached part of its prompt."""
        cached_tokens = sequence.history.cached_tokens
        below_tokens = sequence.host_tokens + sequence.disk_tokens + sequence.remote_tokens
        self.prefix_queries_total += sequence.request.prompt_tokens
        self.prefix_hits_total += cached_tokens - below_tokens
        self.host_hits_total += sequence.host_tokens
        self.disk_hits_total += sequence.disk_tokens
        self.remote_hits_total += sequence.remote_tokens
        self.received_total += sequence.computed - cached_tokens


class BusyTime:
    """Total time during which steps ran."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since_s = 0.0  # steps have been consecutive since then
        self._until_s = 0.0

    @property
    def total_s(self) -> float:
        return self._before_s + (self._until_s - self._since_s)

    def begin(self, at_s: float) -> None:
        """Steps begin, right after the last one or after a pause."""
        if at_s != self._until_s:
            self._before_s += self._until_s - self._since_s
            self._since_s = at_s

    def end(self, at_s: float) -> None:
        self._until_s = at_s
