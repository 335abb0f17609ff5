"""What an engine last said of itself: the figures of its metrics page and its list of models."""

from __future__ import annotations

import msgspec


class EngineReading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at an engine. What its page did not say is None, never 0: nothing is known of it."""

    at: float
    """When the page was asked for, in monotonic seconds."""
    waiting: int | None = None
    """Requests that it has taken and not begun; over all of its data-parallel ranks and models."""
    running: int | None = None
    """Requests in its batches."""
    kv_usage: float | None = None
    """Share of its KV blocks in use, 0 to 1."""
    block_tokens: int | None = None
    """Tokens of one KV block."""
    blocks: int | None = None
    """How many KV blocks it has."""
    ttft_s: float | None = None
    """Mean time to the first token over the last interval in which there were any."""
    ttft_at: float | None = None
    """When that interval ended."""
    ttft_since: float | None = None
    """When it began."""
    first_tokens: int | None = None
    """How many there were in it, if those of responses in one piece are among them as they are generated."""
    tpot_s: float | None = None
    """Mean time between tokens over the last interval in which there were any."""
    tpot_at: float | None = None
    adapters_running: frozenset[str] = frozenset()
    """Adapters of the requests in its batches: they are in its memory."""
    adapters_waiting: frozenset[str] = frozenset()
    """Adapters of requests that wait."""
    max_adapters: int | None = None
    """How many adapters one batch may mix."""
    models: frozenset[str] | None = None
    """The names that it answers to, adapters among them."""
    adapters_listed: frozenset[str] = frozenset()
    """Those of them that it says are adapters."""
