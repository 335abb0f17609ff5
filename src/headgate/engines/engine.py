"""The description of an engine, which `known.py` fills in for each."""

from __future__ import annotations

import msgspec


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine reports the size of its KV cache: by two labels of one family, or by two gauges."""

    family: str = ""
    """The family with the labels; empty for gauges."""
    block_tokens: str
    """The label or gauge with the tokens per block."""
    blocks: str
    """The label or gauge with the number of blocks."""


class AdapterNames(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine reports its adapters: by the labels of one family, each a comma-separated list.

    Each combination is a series of its own, whose value is the time when it was first seen: the one with the
    largest value is current. An engine without such a family may have a gauge for `max`.
    """

    family: str = ""
    running: str = ""
    waiting: str = ""
    max: str


class MetricNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the figures on an engine's metrics page: the newest name first, then older ones.

    The first name present counts, so that a page with both does not count twice.
    """

    waiting: tuple[str, ...]
    running: tuple[str, ...]
    kv_usage: tuple[str, ...]
    ttft: tuple[str, ...] = ()
    """Histograms of seconds."""
    ttft_is_of_all: bool = False
    """Whether `ttft` counts an unstreamed response when its first token is generated, and not later."""
    tpot: tuple[str, ...] = ()
    cache: tuple[CacheConfig, ...] = ()
    adapters: AdapterNames | None = None
    port: int = 0
    """The port of the page; 0 for that of requests."""
    rank: str = ""
    """The label of data-parallel ranks, if there is one: each rank has its own queue and KV cache."""
    replicated: tuple[str, ...] = ()
    """Labels of processes that share these figures: their series repeat each other, and are not summed."""
    partial: tuple[str, ...] = ()
    """Labels that are set only on series that are parts of another: they are not summed either."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of model server."""

    name: str
    """The name in `inferenceEngine`."""
    aliases: tuple[str, ...] = ()
    """Other label values of Pods that run it, in any case."""
    metrics: MetricNames | None = None
    """None if it has no metrics page of a known format."""
