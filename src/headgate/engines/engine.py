"""What is said of every engine: the form that each engine's file fills in."""

from __future__ import annotations

import msgspec


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine tells the size of its KV cache: by two labels of one family, or by two gauges."""

    family: str = ""
    """The family whose labels have it; empty where there are gauges."""
    block_tokens: str
    """The label or gauge with the tokens of a block."""
    blocks: str
    """The label or gauge with the number of blocks."""


class AdapterNames(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine tells which adapters it has: by the labels of one family, each a list with commas.

    Each combination of them is a series of its own, whose value is the time when it was first seen: the one
    with the largest value is of now. An engine without such a family may have a gauge for `max`.
    """

    family: str = ""
    running: str = ""
    waiting: str = ""
    max: str


class MetricNames(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures are on an engine's metrics page: the newest name first, then older ones.

    The first name that a page has counts, so that a page with both does not count twice.
    """

    waiting: tuple[str, ...]
    running: tuple[str, ...]
    kv_usage: tuple[str, ...]
    ttft: tuple[str, ...] = ()
    """Histograms of seconds."""
    ttft_is_of_all: bool = False
    """Whether `ttft` counts a response in one piece when its first token is generated, and not later."""
    tpot: tuple[str, ...] = ()
    cache: tuple[CacheConfig, ...] = ()
    adapters: AdapterNames | None = None
    rank: str = ""
    """The label of data-parallel ranks, if there is one: each has a queue and a KV cache of its own."""
    replicated: tuple[str, ...] = ()
    """Labels of the processes that share these: their series repeat each other, and are not summed."""
    partial: tuple[str, ...] = ()
    """Labels with a value only on series that are parts of another: they are not summed either."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of model server."""

    name: str
    """As `inferenceEngine` has it."""
    aliases: tuple[str, ...] = ()
    """How else Pods are labelled that run it; case does not matter."""
    metrics: MetricNames | None = None
    """None where it has no metrics page of a known form."""
