"""Reads a metric by its name from the page of a Pod, and turns totals into what happened since.

A gauge counts as it is. Of a counter, the rate per second counts, and of a histogram the distribution, both
over the last minute. All series of a page are added up.
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal, NamedTuple

from headgate import engines
from headgate.autoscaling.histograms import Bucket, HistogramError, difference
from headgate.autoscaling.windows import Snapshots
from headgate.engines import unified
from headgate.engines.page import Page

WINDOW_S: Final = 60.0
"""Changes are counted over about this time."""
SHORTEST_S: Final = 5.0
"""A Pod that was first read a moment ago has no changes yet."""
EXPIRED_WINDOWS: Final = 5
"""Readings that are older than so many of these times are not compared with."""
DEFAULT_QUANTILE: Final = 0.95
_FAMILY: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,255}")
_QUANTILE: Final = re.compile(r"(.+):p([0-9]{1,2}(?:\.[0-9]{1,3})?)")

Kind = Literal["gauge", "counter", "histogram"]


class Name(NamedTuple):
    """A metricName: the family on the page, and the quantile that counts if that is a histogram."""

    family: str
    quantile: float = DEFAULT_QUANTILE

    @classmethod
    def of(cls, metric_name: str) -> Name:
        """`vllm:time_to_first_token_seconds:p99` is the 99th percentile of the family before it."""
        found = _QUANTILE.fullmatch(metric_name)
        if found is None or not 0 < float(found[2]) < 100:
            return cls(metric_name)
        return cls(found[1], float(found[2]) / 100)


class Reading(NamedTuple):
    """A metric of one page, added up over its series."""

    kind: Kind
    value: float = 0.0
    """Of a gauge or counter."""
    buckets: tuple[Bucket, ...] = ()
    """Of a histogram."""


class Change(NamedTuple):
    """What happened between two readings of one Pod."""

    per_s: float = 0.0
    """Of a counter."""
    buckets: tuple[Bucket, ...] = ()
    """Of a histogram."""


# -- from a page


def read(body: bytes, family: str) -> Reading | None:
    """None if the page does not have the metric, or not as a gauge, counter or histogram with valid numbers.
    Raises engines.PageTooLargeError."""
    if _FAMILY.fullmatch(family) is None:
        return None
    if (load := _of_engine(body, family)) is not None:
        return Reading("gauge", load)
    found = _read(body, family)
    if found is not None:
        return found
    others = (_read(body, other) for other in _unified_sources(family))
    return next((each for each in others if each is not None), None)


def _read(body: bytes, family: str) -> Reading | None:
    page = Page(body)
    samples = page.samples(family)
    kind = page.kind(family)
    if samples and kind != "summary":
        total = sum(sample.value for sample in samples)
        if not math.isfinite(total):
            return None
        is_counter = kind == "counter" or (not kind and family.endswith(("_total", "_count", "_sum")))
        return Reading("counter" if is_counter else "gauge", total)
    return _histogram(page, family)


def _histogram(page: Page, family: str) -> Reading | None:
    counts: dict[float, float] = {}
    series: dict[float, int] = {}
    for sample in page.samples(f"{family}_bucket"):
        try:
            upper = float(sample.labels.get("le", ""))
        except ValueError:
            return None
        if math.isnan(upper):
            return None
        counts[upper] = counts.get(upper, 0.0) + sample.value
        series[upper] = series.get(upper, 0) + 1
    is_whole = math.inf in counts and len(set(series.values())) == 1
    rising = [counts[upper] for upper in sorted(counts)]
    if not is_whole or not 0 <= rising[0] <= rising[-1] < math.inf or rising != sorted(rising):
        return None
    return Reading("histogram", buckets=tuple(map(Bucket, sorted(counts), rising)))


# Some names that engines are known to have: of them it is known which series repeat each other.
_LOADS: Final = {
    name: (engine.metrics, figure)
    for engine in engines.KNOWN
    if engine.metrics is not None
    for figure in ("waiting", "running", "kv_usage")
    for name in getattr(engine.metrics, figure)
}


def _of_engine(body: bytes, family: str) -> float | None:
    """The load of a known engine: ranks are added up, or averaged for a share; repeated series are not."""
    if family == unified.WAITING.name:
        sources = _unified_sources(family)
    elif family in _LOADS:
        sources = [family]
    else:
        return None
    for source in sources:
        names, figure = _LOADS[source]
        if Page(body).samples(source):
            value = getattr(engines.read(body, names), figure)
            return None if value is None else float(value)
    return None


def _unified_sources(family: str) -> list[str]:
    """The engines' own names of a family with a unified name."""
    return _SOURCES.get(family, [])


_SOURCES: Final = {
    each.name: [name for engine in engines.KNOWN for name in unified.sources(engine)[each]]
    for each in unified.FAMILIES
}


# -- over time


class Readings:
    """The latest readings of one counter or histogram of one Pod. Times are monotonic seconds."""

    __slots__ = ("_past",)

    def __init__(self, over_s: float = WINDOW_S) -> None:
        """Changes are counted over about `over_s` seconds."""
        self._past: Snapshots[Reading] = Snapshots(over_s, EXPIRED_WINDOWS * over_s, min(SHORTEST_S, over_s))

    def add(self, reading: Reading, now: float) -> Change | None:
        """What happened lately; None after the first reading, after a long time without any, and after a
        restart of the Pod, whose totals begin again."""
        past = self._past
        if (last := past.last) is not None and _has_restarted(last, reading):
            past.clear()
        past.add(now, reading)
        base = past.base(now)
        if base is None:
            return None
        at, before = base
        if reading.kind == "histogram":
            return Change(buckets=difference(reading.buckets, before.buckets))
        return Change((reading.value - before.value) / (now - at))


def _has_restarted(before: Reading, reading: Reading) -> bool:
    if before.kind != reading.kind:
        return True
    if reading.kind != "histogram":
        return reading.value < before.value
    try:
        difference(reading.buckets, before.buckets)
    except HistogramError:
        return True
    return False
