"""Sums the metrics of several processes on one page, so that sums never decrease when a process ends.

Each process dumps its samples as families; the process that serves the page adds them up. The final counts of
ended processes are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headgate.telemetry.metrics import (
    OTHER,
    AnyMetric,
    Counter,
    Exemplar,
    Gauge,
    Histogram,
    Registry,
    buckets,
)

MAX_KEPT = 2000
"""Label sets kept of ended processes, per metric; the rest is kept as "other"."""

Over = Literal["sum", "max"]


class Sample(msgspec.Struct, array_like=True):
    """`counts` are those of a histogram's buckets, not cumulative; `value` is then their total."""

    labels: tuple[str, ...]
    value: float
    counts: list[int] = []
    exemplars: dict[int, Exemplar] = {}
    """The last one of each bucket that has any, by its place."""


class Family(msgspec.Struct, array_like=True):
    """One metric with its samples."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label_names: tuple[str, ...]
    over: Over = "sum"
    """How to combine a gauge over several processes."""
    bounds: tuple[float, ...] = ()
    samples: list[Sample] = []


_LARGEST = ("process_start_time_seconds", "process_max_fds")
"""Gauges of other collectors that cannot be summed."""


def families(registry: Registry) -> list[Family]:
    """What a process has counted so far."""
    found = [_family(metric) for metric in registry.metrics]
    for collector in registry.included:
        found += [_of_prometheus(metric) for metric in collector.collect()]
    return found


def _of_prometheus(metric: Metric) -> Family:
    """From a plain counter or gauge without labels, like the process metrics."""
    return Family(
        name=metric.name,
        kind="counter" if metric.type == "counter" else "gauge",
        help=metric.documentation,
        label_names=(),
        over="max" if metric.name in _LARGEST else "sum",
        samples=[Sample((), float(sample.value)) for sample in metric.samples],
    )


def _family(metric: AnyMetric) -> Family:
    if isinstance(metric, Histogram):
        return Family(
            name=metric.name,
            kind="histogram",
            help=metric.help,
            label_names=metric.label_names,
            bounds=metric.bounds,
            samples=[
                Sample(values, child.total, list(child.counts), dict(child.exemplars or {}))
                for values, child in metric.children()
            ],
        )
    return Family(
        name=metric.name,
        kind="counter" if isinstance(metric, Counter) else "gauge",
        help=metric.help,
        label_names=metric.label_names,
        over=metric.over if isinstance(metric, Gauge) else "sum",
        samples=[Sample(tuple(values), float(value)) for values, value in metric.samples()],
    )


class Sums:
    """Sums the families of processes."""

    def __init__(self, kept: Iterable[Family] = ()) -> None:
        self._kept: dict[str, Family] = {}
        self.keep(kept)

    @property
    def kept(self) -> list[Family]:
        """Counts of ended processes, for a successor that continues them."""
        return list(self._kept.values())

    def keep(self, ended: Iterable[Family]) -> None:
        """Add the last families of a process that has ended; its gauges end with it."""
        lasting = [family for family in ended if family.kind != "gauge"]
        for family in lasting:
            known = self._kept.get(family.name)
            self._kept[family.name] = _bounded(_added([known, family] if known else [family]))

    def of(self, processes: Iterable[Sequence[Family]]) -> list[Family]:
        """The sums over present and past processes."""
        found: dict[str, list[Family]] = {name: [family] for name, family in self._kept.items()}
        for each in processes:
            for family in each:
                same = found.setdefault(family.name, [])
                # An upgrade may change labels or buckets: the newer ones replace what cannot be added.
                if same and _shape(same[0]) != _shape(family):
                    same.clear()
                same.append(family)
        return [_added(same) for _, same in sorted(found.items())]

    def page(self, processes: Iterable[Sequence[Family]], accept: str) -> tuple[bytes, str]:
        """The page that Prometheus scrapes, in the format that its `Accept` header requests, and the content
        type."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Page(self.of(processes)))
        render, content_type = choose_encoder(accept)
        return render(registry), content_type


def _shape(family: Family) -> tuple[object, ...]:
    return family.kind, family.label_names, family.bounds


def _added(same: Sequence[Family]) -> Family:
    """One family from several of the same shape."""
    if len(same) == 1:
        return same[0]
    sums: dict[tuple[str, ...], Sample] = {}
    take_larger = same[-1].over == "max"
    for family in same:
        for sample in family.samples:
            known = sums.get(sample.labels)
            if known is None:
                sums[sample.labels] = sample
            elif take_larger:
                sums[sample.labels] = Sample(sample.labels, max(known.value, sample.value))
            else:
                sums[sample.labels] = _sum(known, sample)
    return msgspec.structs.replace(same[-1], samples=list(sums.values()))


def _sum(one: Sample, other: Sample) -> Sample:
    counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
    exemplars = one.exemplars
    if other.exemplars:  # the newest of each bucket
        exemplars = {**one.exemplars}
        for place, each in other.exemplars.items():
            known = exemplars.get(place)
            if known is None or known.at < each.at:
                exemplars[place] = each
    return Sample(one.labels, one.value + other.value, counts, exemplars)


def _bounded(family: Family) -> Family:
    """Bounded to MAX_KEPT samples, with the rest combined."""
    if len(family.samples) <= MAX_KEPT:
        return family
    rest = Sample(
        (OTHER,) * len(family.label_names), 0.0, [0] * (len(family.bounds) + 1) * bool(family.bounds)
    )
    kept = []
    for place, sample in enumerate(family.samples):
        if place < MAX_KEPT - 1 and sample.labels != rest.labels:
            kept.append(sample)
        else:
            rest = _sum(rest, sample)
    return msgspec.structs.replace(family, samples=[*kept, rest])


class _Page(Collector):
    """Families in prometheus_client's form."""

    def __init__(self, found: Sequence[Family]) -> None:
        self._families = found

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            yield _metric(family)


def _metric(family: Family) -> Metric:
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.label_names)
        for sample in family.samples:
            shown = buckets(family.bounds, sample.counts, sample.exemplars)
            histogram.add_metric(sample.labels, shown, sample.value)
        return histogram
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    plain = make(family.name, family.help, labels=family.label_names)
    for sample in family.samples:
        plain.add_metric(sample.labels, sample.value)
    return plain
