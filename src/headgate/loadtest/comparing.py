"""Compare two runs of the same plan: differences with confidence intervals from a block bootstrap.

Requests of the same number are pairs, since both runs send them at the same time of the run. A resample
draws blocks of successive pairs, since requests that follow each other share queues and are not independent.
The interval of a difference is that between the percentiles 2.5 and 97.5 of its resamples. It covers the
chance of which requests were measured, not that of which day it was: other runs may differ by more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.loadtest.records import OK, Record

RESAMPLES: Final = 1000
FEWEST: Final = 8
"""Pairs, for an interval."""
MAX_PAIRS: Final = 20_000
"""Of more, the resamples use evenly spread ones."""

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
    summary: Callable[[Numbers], Numbers]
    more_is_better: bool = False


def _percentile(percent: float) -> Callable[[Numbers], Numbers]:
    def found(values: Numbers) -> Numbers:
        return np.asarray(np.nanpercentile(values, percent, axis=-1))

    return found


def _mean(values: Numbers) -> Numbers:
    return np.asarray(np.nanmean(values, axis=-1))


_FIGURES: Final = (
    _Figure("TTFT mean", "s", "ttft_s", _mean),
    _Figure("TTFT p50", "s", "ttft_s", _percentile(50)),
    _Figure("TTFT p90", "s", "ttft_s", _percentile(90)),
    _Figure("TTFT p99", "s", "ttft_s", _percentile(99)),
    _Figure("TPOT p50", "s", "tpot_s", _percentile(50)),
    _Figure("TPOT p99", "s", "tpot_s", _percentile(99)),
    _Figure("latency p50", "s", "latency_s", _percentile(50)),
    _Figure("latency p99", "s", "latency_s", _percentile(99)),
    _Figure("in SLO", "share", "good", _mean, True),
    _Figure("failed", "share", "failed", _mean),
    _Figure("cached", "share", "cached", _mean, True),
)


def compare(
    first: Sequence[Record], second: Sequence[Record], *, has_slo: bool, seed: int = 1
) -> list[Difference]:
    """The figures of two runs; those that neither run has are left out."""
    numbers = sorted({each.number for each in first} & {each.number for each in second})
    numbers = numbers[:: max(1, math.ceil(len(numbers) / MAX_PAIRS))]
    ours, theirs = _columns(first, numbers), _columns(second, numbers)
    draws = _draws(len(numbers), seed)
    return [
        _difference(figure, ours[figure.column], theirs[figure.column], draws)
        for figure in _FIGURES
        if (has_slo or figure.column != "good") and _is_told(ours, theirs, figure.column)
    ]


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


def _difference(
    figure: _Figure, ours: Numbers, theirs: Numbers, draws: NDArray[np.intp] | None
) -> Difference:
    first, second = _value(figure, ours), _value(figure, theirs)
    low = high = None
    if draws is not None and first is not None and second is not None:
        low, high = _interval(figure, ours, theirs, draws)
    is_better = None
    if low is not None and high is not None and low * high > 0:
        is_better = (low > 0) == figure.more_is_better
    return Difference(
        name=figure.name,
        unit=figure.unit,
        first=first,
        second=second,
        change=_change(figure, first, second),
        low=low,
        high=high,
        is_better=is_better,
    )


def _value(figure: _Figure, column: Numbers) -> float | None:
    return None if np.all(np.isnan(column)) else float(figure.summary(column))


def _change(figure: _Figure, first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return None
    if figure.unit == "share":
        return second - first
    return second / first - 1 if first else None


def _interval(
    figure: _Figure, ours: Numbers, theirs: Numbers, draws: NDArray[np.intp]
) -> tuple[float | None, float | None]:
    changes = []
    for part in np.array_split(draws, max(1, draws.size // 2_000_000)):
        # Resamples without any value are left out.
        with np.errstate(all="ignore"):
            drawn_ours, drawn_theirs = ours[part], theirs[part]
            has_both = ~(np.all(np.isnan(drawn_ours), axis=1) | np.all(np.isnan(drawn_theirs), axis=1))
            a, b = figure.summary(drawn_ours[has_both]), figure.summary(drawn_theirs[has_both])
            changes.append(b - a if figure.unit == "share" else b / a - 1)
    found = np.concatenate(changes)
    found = found[np.isfinite(found)]
    if not found.size:
        return None, None
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)
