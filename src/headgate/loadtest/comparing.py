"""Compare two runs of the same plan: differences with confidence intervals from a block bootstrap.

Requests of the same number are pairs, since both runs send them at the same time of the run. A resample
draws blocks of successive pairs, since requests that follow each other share queues and are not independent.
The interval of a difference is that between the percentiles 2.5 and 97.5 of its resamples. It covers the
chance of which requests were measured, not that of which day it was: other runs may differ by more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.loadtest.records import OK, Record

RESAMPLES: Final = 500
FEWEST: Final = 8
"""Pairs, for an interval."""
MAX_PAIRS: Final = 10_000
"""Of more, evenly spread ones are used: the intervals are then wider than they could be."""

Numbers = NDArray[np.float64]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both runs. Differences are those of the second run from the first."""

    name: str
    unit: str
    """`s`, `share`, or `per_s`."""
    first: float | None
    second: float | None
    change: float | None
    """Relative; for shares, the difference itself."""
    low: float | None
    high: float | None
    """Bounds of the change, with 95 % confidence; None for too few pairs."""
    is_better: bool | None
    """None if the interval contains 0, or there is none."""


class _Figure(NamedTuple):
    name: str
    unit: str
    column: str
    share: float | None = None
    """Of a percentile; None for the mean."""
    more_is_better: bool = False

    def of(self, ordered: Numbers) -> Numbers:
        """The figure of each row; values are sorted, those that are missing (nan) last."""
        counts = np.sum(~np.isnan(ordered), axis=-1)
        with np.errstate(invalid="ignore"):
            if self.share is None:
                return np.asarray(np.nansum(ordered, axis=-1) / counts)
        ranks = np.maximum(np.ceil(self.share * counts).astype(np.intp) - 1, 0)
        return np.asarray(np.take_along_axis(ordered, ranks[..., None], axis=-1)[..., 0])


_FIGURES: Final = (
    _Figure("TTFT mean", "s", "ttft_s"),
    _Figure("TTFT p50", "s", "ttft_s", 0.5),
    _Figure("TTFT p90", "s", "ttft_s", 0.9),
    _Figure("TTFT p99", "s", "ttft_s", 0.99),
    _Figure("TPOT p50", "s", "tpot_s", 0.5),
    _Figure("TPOT p99", "s", "tpot_s", 0.99),
    _Figure("latency p50", "s", "latency_s", 0.5),
    _Figure("latency p99", "s", "latency_s", 0.99),
    _Figure("in SLO", "share", "good", None, True),
    _Figure("failed", "share", "failed"),
    _Figure("cached", "share", "cached", None, True),
)


def compare(
    first: Sequence[Record], second: Sequence[Record], *, has_slo: bool, seed: int = 1
) -> list[Difference]:
    """The figures of two runs; those that neither run has are left out."""
    numbers = sorted({each.number for each in first} & {each.number for each in second})
    numbers = numbers[:: max(1, math.ceil(len(numbers) / MAX_PAIRS))]
    ours, theirs = _columns(first, numbers), _columns(second, numbers)
    draws = _draws(len(numbers), seed)
    found: list[Difference] = []
    for column, figures in groupby(_FIGURES, lambda figure: figure.column):
        if (has_slo or column != "good") and _is_told(ours, theirs, column):
            found += _differences(list(figures), ours[column], theirs[column], draws)
    return found


def _is_told(ours: dict[str, Numbers], theirs: dict[str, Numbers], column: str) -> bool:
    return any(not np.all(np.isnan(each[column])) for each in (ours, theirs))


def _columns(records: Sequence[Record], numbers: Sequence[int]) -> dict[str, Numbers]:
    by_number = {each.number: each for each in records}
    chosen = [by_number[number] for number in numbers]

    def column(read: Callable[[Record], float | None]) -> Numbers:
        found = (read(each) for each in chosen)
        return np.array([math.nan if each is None else each for each in found], dtype=np.float64)

    return {
        "ttft_s": column(lambda each: each.ttft_s),
        "tpot_s": column(lambda each: each.tpot_s),
        "latency_s": column(lambda each: each.latency_s),
        "good": column(lambda each: float(each.is_good)),
        "failed": column(lambda each: float(each.outcome != OK)),
        "cached": column(_cached),
    }


def _cached(record: Record) -> float | None:
    if record.cached_tokens is None or not record.prompt_tokens:
        return None
    return record.cached_tokens / record.prompt_tokens


def _draws(count: int, seed: int) -> NDArray[np.intp] | None:
    """Places of pairs for each resample: blocks of successive ones, around the end of the run."""
    if count < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    size = math.ceil(math.sqrt(count))
    starts = rng.integers(0, count, (RESAMPLES, math.ceil(count / size)))
    places = (starts[:, :, None] + np.arange(size)) % count
    return np.asarray(places.reshape(RESAMPLES, -1)[:, :count], dtype=np.intp)


def _differences(
    figures: Sequence[_Figure], ours: Numbers, theirs: Numbers, draws: NDArray[np.intp] | None
) -> Iterator[Difference]:
    """The figures of one column."""
    drawn = None if draws is None else (np.sort(ours[draws], axis=1), np.sort(theirs[draws], axis=1))
    ours, theirs = np.sort(ours), np.sort(theirs)
    for figure in figures:
        first, second = _number(figure.of(ours)), _number(figure.of(theirs))
        low = high = None
        if drawn is not None and first is not None and second is not None:
            low, high = _interval(figure, *drawn)
        is_better = None
        if low is not None and high is not None and low * high > 0:
            is_better = (low > 0) == figure.more_is_better
        yield Difference(
            name=figure.name,
            unit=figure.unit,
            first=first,
            second=second,
            change=_change(figure, first, second),
            low=low,
            high=high,
            is_better=is_better,
        )


def _number(value: Numbers) -> float | None:
    return None if np.isnan(value) else float(value)


def _change(figure: _Figure, first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return None
    if figure.unit == "share":
        return second - first
    return second / first - 1 if first else None


def _interval(figure: _Figure, ours: Numbers, theirs: Numbers) -> tuple[float | None, float | None]:
    first, second = figure.of(ours), figure.of(theirs)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = second - first if figure.unit == "share" else second / first - 1
    found = found[np.isfinite(found)]  # resamples without any value are left out
    if not found.size:
        return None, None
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)
