"""What can be read off an engine at any time."""

import msgspec


class EngineStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of the engine; the `_total` fields only grow."""

    running: int
    waiting: int
    kv_blocks: int
    kv_blocks_used: int
    kv_blocks_cached: int
    """Blocks that can be found by a hash, whether a request holds them or not."""
    adapters_running: frozenset[str]
    adapters_waiting: frozenset[str]
    """Those that waiting requests ask for."""
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
    """Includes tokens that were prefilled again after a preemption, and no cached ones."""
    output_tokens_total: int
    prefix_queries_total: int
    """Prompt tokens of requests that started, each request once."""
    prefix_hits_total: int
    """Those of them that were found in the accelerator's cache."""
    host_hits_total: int
    """Those of them that were found in the host's memory."""
    disk_hits_total: int
    """Those of them that were found on the disk."""
    remote_hits_total: int
    """Those of them that were found in the store that engines share."""
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
        """Share of the blocks that requests hold; cached blocks of nobody do not count."""
        return self.kv_blocks_used / self.kv_blocks
