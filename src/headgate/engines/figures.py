"""The figures of one metrics page, summed over its ranks and models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headgate.engines.engine import AdapterNames, CacheConfig, MetricNames
from headgate.engines.page import Page, Sample

PROCESS_START = "process_start_time_seconds"
MAX_COUNT = 1_000_000_000
"""Limit for requests, blocks or tokens: a larger number is invalid."""
MAX_ADAPTERS = 4096
MAX_SUM_S = 1e12
"""Limit for the sum of a histogram in seconds: a thousand years, in each of thirty concurrent requests."""
MAX_KV_USAGE = 1.1
"""A share slightly above one is rounding; a larger one is invalid."""


class Total(NamedTuple):
    """Totals of a histogram since its engine started."""

    sum_s: float
    samples: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a page; None if a figure is missing or impossible."""

    waiting: int | None = None
    running: int | None = None
    kv_usage: float | None = None
    block_tokens: int | None = None
    blocks: int | None = None
    ttft: Total | None = None
    ttft_is_of_all: bool = False
    """Whether `ttft` counts first tokens of unstreamed responses when they are generated."""
    tpot: Total | None = None
    adapters_running: frozenset[str] = frozenset()
    adapters_waiting: frozenset[str] = frozenset()
    max_adapters: int | None = None
    started_at: float | None = None
    """When its process started, in seconds since 1970."""
    malformed: int = 0
    """Families that are present and unreadable."""

    @property
    def says_load(self) -> bool:
        """Whether it is the page of a known engine, and no other page."""
        return self.waiting is not None or self.running is not None or self.kv_usage is not None


def read(text: bytes, names: MetricNames) -> Figures:
    """Parse the figures of an engine from a page. Raises PageTooLargeError."""
    return _Reader(text, names).read()


class _Reader:
    """One page, and the number of its malformed families."""

    def __init__(self, text: bytes, names: MetricNames) -> None:
        self._page = Page(text)
        self._names = names
        self._malformed = 0

    def read(self) -> Figures:
        names = self._names
        block_tokens, blocks_by_rank = self._cache()
        running_adapters, waiting_adapters, max_adapters = self._adapters()
        ttft = self._total(names.ttft)
        return Figures(
            waiting=self._requests(names.waiting),
            running=self._requests(names.running),
            kv_usage=self._kv_usage(blocks_by_rank),
            block_tokens=block_tokens,
            blocks=sum(blocks_by_rank.values()) or None,
            ttft=ttft,
            ttft_is_of_all=names.ttft_is_of_all and ttft is not None,
            tpot=self._total(names.tpot),
            adapters_running=running_adapters,
            adapters_waiting=waiting_adapters,
            max_adapters=max_adapters,
            started_at=next((s.value for s in self._page.samples(PROCESS_START) if s.value > 0), None),
            malformed=self._malformed,
        )

    def _first(self, names: Iterable[str]) -> list[Sample]:
        """The samples of the first name that the page has."""
        return next((found for name in names if (found := self._page.samples(name))), [])

    def _by_rank(self, samples: list[Sample], most: float) -> dict[str, float] | None:
        """The sum of each rank's series; None, counted as malformed, if one of them is not a number from 0 to
        `most`.

        An incomplete sum would make the engine look idler than it is.
        """
        if any(not 0 <= sample.value <= most for sample in samples):
            self._malformed += 1
            return None
        if len(samples) == 1:
            return {"": samples[0].value}
        return _summed(samples, self._names)

    def _requests(self, names: Sequence[str]) -> int | None:
        by_rank = self._by_rank(self._first(names), MAX_COUNT)
        return round(sum(by_rank.values())) if by_rank else None

    def _kv_usage(self, blocks_by_rank: dict[str, int]) -> float | None:
        """The mean over ranks, weighted by their blocks if those of each are known."""
        by_rank = self._by_rank(self._first(self._names.kv_usage), MAX_KV_USAGE)
        if not by_rank:
            return None
        weights = blocks_by_rank if blocks_by_rank.keys() == by_rank.keys() else dict.fromkeys(by_rank, 1)
        used = sum(share * weights[rank] for rank, share in by_rank.items())
        return min(used / sum(weights.values()), 1.0)

    def _total(self, names: Sequence[str]) -> Total | None:
        for name in names:
            counts = self._page.samples(f"{name}_count")
            if counts:
                sums = self._page.samples(f"{name}_sum")
                total = Total(sum(s.value for s in sums), sum(s.value for s in counts))
                if (
                    len(sums) == len(counts)
                    and 0 <= total.sum_s <= MAX_SUM_S
                    and 0 <= total.samples < math.inf
                ):
                    return total
                self._malformed += 1
        return None

    # -- cache size

    def _cache(self) -> tuple[int | None, dict[str, int]]:
        """Tokens per block, and blocks by rank, as far as reported."""
        for config in self._names.cache:
            samples = self._cache_samples(config)
            if samples is not None:
                sizes, blocks = samples
                if not sizes and not blocks:
                    self._malformed += 1
                return next(iter(sizes.values()), None), blocks
        return None, {}

    def _cache_samples(self, config: CacheConfig) -> tuple[dict[str, int], dict[str, int]] | None:
        """Sizes and numbers of blocks by rank; None if the page does not report them in this way."""
        names = self._names
        if not config.family:
            sizes = self._page.samples(config.block_tokens)
            blocks = self._page.samples(config.blocks)
            return (_counts(sizes, names), _counts(blocks, names)) if sizes or blocks else None
        infos = [sample.labels for sample in self._page.samples(config.family)]
        if not infos:
            return None
        ranks = [info.get(names.rank, "") if len(infos) > 1 else "" for info in infos]
        pairs = list(zip(ranks, infos, strict=True))
        return (
            {rank: n for rank, info in pairs if (n := _count(info.get(config.block_tokens, "")))},
            {rank: n for rank, info in pairs if (n := _count(info.get(config.blocks, "")))},
        )

    # -- adapters

    def _adapters(self) -> tuple[frozenset[str], frozenset[str], int | None]:
        names = self._names.adapters
        if names is None:
            return frozenset(), frozenset(), None
        if not names.family:
            limits = self._by_rank(self._page.samples(names.max), MAX_COUNT)
            return frozenset(), frozenset(), round(min(limits.values())) if limits else None
        newest: dict[str, tuple[float, Mapping[str, str]]] = {}
        for sample in self._page.samples(names.family):
            labels = sample.labels
            rank = labels.get(self._names.rank, "")
            if math.isfinite(sample.value) and sample.value >= newest.get(rank, (-math.inf,))[0]:
                newest[rank] = (sample.value, labels)
        return self._of_newest(names, [labels for _, labels in newest.values()])

    def _of_newest(
        self, names: AdapterNames, infos: list[Mapping[str, str]]
    ) -> tuple[frozenset[str], frozenset[str], int | None]:
        limits = [_count(info.get(names.max, "")) for info in infos]
        self._malformed += limits.count(None)
        running = _listed(info.get(names.running, "") for info in infos)
        waiting = _listed(info.get(names.waiting, "") for info in infos)
        if len(running) + len(waiting) > MAX_ADAPTERS:
            self._malformed += 1
            running = waiting = frozenset()
        return running, waiting, min((limit for limit in limits if limit is not None), default=None)


def _summed(samples: list[Sample], names: MetricNames) -> dict[str, float]:
    """By rank: the sum over models and other labels, without repeated series.

    Each process of a rank may report the shared queue; the largest value is taken, as they report at
    different moments. A series that is a part of another is skipped.
    """
    shared: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for sample in samples:
        labels = sample.labels
        if any(labels.get(label) for label in names.partial):
            continue
        rank = labels.get(names.rank, "")
        rest = frozenset(item for item in labels.items() if item[0] not in names.replicated)
        shared[rank, rest] = max(sample.value, shared.get((rank, rest), 0.0))
    by_rank: dict[str, float] = {}
    for (rank, _), value in shared.items():
        by_rank[rank] = by_rank.get(rank, 0.0) + value
    return by_rank


def _counts(samples: list[Sample], names: MetricNames) -> dict[str, int]:
    """A gauge of each rank that has a number above zero."""
    ranks = [sample.labels.get(names.rank, "") if len(samples) > 1 else "" for sample in samples]
    return {
        rank: round(sample.value)
        for rank, sample in zip(ranks, samples, strict=True)
        if 1 <= sample.value <= MAX_COUNT
    }


def _count(text: str) -> int | None:
    """An integer in a label; some releases write None until they know it."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_COUNT))):
        return None
    return int(text) if int(text) <= MAX_COUNT else None


def _listed(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts for part in text.split(",") if (name := part.strip()))
