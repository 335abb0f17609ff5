"""The last report of an engine: the figures of its metrics page and its list of models."""

from __future__ import annotations

import msgspec


class EngineReading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of an engine. A figure that its page lacks is None, never 0: it is unknown."""

    at: float
    """When the page was requested, in monotonic seconds."""
    waiting: int | None = None
    """Requests accepted and not started, over all of its data-parallel ranks and models."""
    running: int | None = None
    """Requests in its batches."""
    kv_usage: float | None = None
    """Share of its KV blocks in use, 0 to 1."""
    block_tokens: int | None = None
    """Tokens of one KV block."""
    blocks: int | None = None
    """Number of its KV blocks."""
    ttft_s: float | None = None
    """Mean time to first token in the last interval with samples."""
    ttft_at: float | None = None
    """When that interval ended."""
    ttft_since: float | None = None
    """When it began."""
    first_tokens: int | None = None
    """First tokens in that interval, if the engine counts those of unstreamed responses when it generates
    them."""
    tpot_s: float | None = None
    """Mean time between tokens in the last interval with samples."""
    tpot_at: float | None = None
    adapters_running: frozenset[str] = frozenset()
    """Adapters of the requests in its batches: they are in its memory."""
    adapters_waiting: frozenset[str] = frozenset()
    """Adapters of waiting requests."""
    max_adapters: int | None = None
    """Limit of different adapters in one batch."""
    models: frozenset[str] | None = None
    """Names of the models that it serves, adapters included."""
    adapters_listed: frozenset[str] = frozenset()
    """The names in `models` that it lists as adapters."""
