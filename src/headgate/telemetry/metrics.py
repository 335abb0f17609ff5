"""Metrics cheap enough for the data path; prometheus_client renders them.

`prometheus_client`'s own counters take a lock for every sample; the data path runs on one thread and
binds its children once, so a sample here is an addition (0.05 µs) or a bisection (0.25 µs).
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ShownExemplar

from headgate.telemetry.build import installed
from headgate.telemetry.line_log import LineHandler

LATENCY_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
"""Bucket bounds for latencies, in seconds: language models stream for minutes."""

OTHER: Final = "other"
MAX_CHILDREN: Final = 2000
"""Series per metric. Label values come from objects and requests; beyond this many, new ones are "other"."""

PER_TOKEN_S: Final = (
    0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075,
    0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
"""Bucket bounds for the time per token, in seconds: readers notice differences around 50 ms."""


class LabelValues:
    """Values of one label: the first `most` are distinct, all others become "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def value(self, value: str) -> str:
        """The label value to use."""
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value

    def keep(self, values: Collection[str]) -> None:
        """Forget all other values."""
        self._known.intersection_update(values)


class Exemplar(NamedTuple):
    """A trace that is an example of the values in a bucket."""

    trace_id: str
    span_id: str
    value: float
    at: float
    """When it was observed, in seconds since 1970."""


class CounterChild:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class HistogramChild:
    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.exemplars: dict[int, Exemplar] | None = None
        """The last one of each bucket that has any, by its place."""
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def exemplify(self, value: float, trace_id: str, span_id: str, at: float) -> None:
        """Name a trace as an example of a value that was observed; `at` is in seconds since 1970."""
        if self.exemplars is None:
            self.exemplars = {}
        self.exemplars[bisect_left(self.bounds, value)] = Exemplar(trace_id, span_id, value, at)


Child = TypeVar("Child")


class _Family(Generic[Child]):
    def __init__(self, name: str, help_: str, labels: Sequence[str], make: Callable[[], Child]) -> None:
        self.name, self.help, self.label_names = name, help_, tuple(labels)
        self._make = make
        self._children: dict[tuple[str, ...], Child] = {}
        if not labels:
            self._children[()] = make()

    def labels(self, *values: str) -> Child:
        """The child for these label values; bind it once where samples are frequent."""
        child = self._children.get(values)
        if child is None:
            if len(self._children) >= MAX_CHILDREN:
                values = (OTHER,) * len(values)
            child = self._children.setdefault(values, self._make())
        return child

    def children(self) -> Iterable[tuple[tuple[str, ...], Child]]:
        return list(self._children.items())

    def keep(self, label: str, values: Collection[str]) -> None:
        """End the series with any other value of this label; a child that is still bound no longer counts."""
        place = self.label_names.index(label)
        self._children = {of: child for of, child in self._children.items() if of[place] in values}


Read = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
"""Returns label values and number of each sample, at every scrape."""


class Counter(_Family[CounterChild]):
    """A counter. Give the name without the suffix `_total`. With `read`, its samples come from elsewhere."""

    def __init__(self, name: str, help_: str, labels: Sequence[str] = (), read: Read | None = None) -> None:
        super().__init__(name, help_, labels, CounterChild)
        self._read = read

    def samples(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return self._read() if self._read else ((v, child.value) for v, child in self.children())

    def metric(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.label_names)
        for values, value in self.samples():
            family.add_metric(values, value)
        return family


class Gauge(_Family[CounterChild]):
    """A gauge. With `read`, its samples are read at each scrape.

    `over`: how to combine several processes on one page, by sum or by maximum; the latter if all report the
    same things.
    """

    def __init__(
        self,
        name: str,
        help_: str,
        labels: Sequence[str] = (),
        read: Read | None = None,
        *,
        over: Literal["sum", "max"] = "sum",
    ) -> None:
        super().__init__(name, help_, labels, CounterChild)
        self._read = read
        self.over = over

    def samples(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return self._read() if self._read else ((v, child.value) for v, child in self.children())

    def metric(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.label_names)
        for values, value in self.samples():
            family.add_metric(values, value)
        return family


class Histogram(_Family[HistogramChild]):
    """A distribution over fixed buckets."""

    def __init__(
        self, name: str, help_: str, labels: Sequence[str] = (), bounds: Sequence[float] = LATENCY_S
    ) -> None:
        self.bounds = tuple(bounds)
        super().__init__(name, help_, labels, lambda: HistogramChild(self.bounds))

    def metric(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.label_names)
        for values, child in self.children():
            family.add_metric(values, buckets(self.bounds, child.counts, child.exemplars), child.total)
        return family


AnyMetric = Counter | Gauge | Histogram

Bucket = tuple[str, float] | tuple[str, float, ShownExemplar]
"""The bound of a bucket, its cumulative count, and an exemplar if it has one."""


def buckets(
    bounds: Sequence[float], counts: Sequence[int], exemplars: Mapping[int, Exemplar] | None
) -> list[Bucket]:
    """Bucket counts as the cumulative ones of a page, with their exemplars, which only OpenMetrics shows."""
    cumulative = 0
    found: list[Bucket] = []
    for place, (bound, count) in enumerate(zip((*map(str, bounds), "+Inf"), counts, strict=True)):
        cumulative += count
        known = exemplars.get(place) if exemplars else None
        if known is None:
            found.append((bound, float(cumulative)))
        else:
            labels = {"trace_id": known.trace_id, "span_id": known.span_id}
            found.append((bound, float(cumulative), ShownExemplar(labels, known.value, known.at)))
    return found


class Registry(Collector):
    """All metrics of one process."""

    def __init__(self) -> None:
        self._metrics: list[AnyMetric] = []
        self.included: list[Collector] = []
        self._prometheus = CollectorRegistry(auto_describe=False)
        self._prometheus.register(self)

    @property
    def metrics(self) -> Sequence[AnyMetric]:
        return self._metrics

    def add(self, *metrics: AnyMetric) -> None:
        self._metrics += metrics

    def include(self, collector: Collector) -> None:
        """Add the metrics of another collector."""
        self.included.append(collector)
        self._prometheus.register(collector)

    def collect(self) -> Iterator[Metric]:
        for metric in self._metrics:
            yield metric.metric()

    def render(self) -> bytes:
        """The page that Prometheus scrapes, in its text format 0.0.4."""
        return generate_latest(self._prometheus)

    def page(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that the scraper's `Accept` header requests, and its content type."""
        render, content_type = choose_encoder(accept)
        return render(self._prometheus), content_type


# Metrics of every process: its build, and its use of the machine.
def add_process_metrics(registry: Registry) -> None:
    """Add `headgate_build_info`, and on Linux memory, CPU time, descriptors and start time (`process_*`)."""
    build = installed()
    info = Gauge(
        "headgate_build_info",
        "Always 1; the labels say what runs; form is compiled or pure (plain Python).",
        ("version", "python", "form"),
        over="max",
    )
    info.labels(build.version, build.python, build.form).value = 1.0
    registry.add(info)
    registry.include(ProcessCollector(registry=None))
    add_log_metrics(registry)


def add_log_metrics(registry: Registry) -> None:
    """Add `headgate_log_lines`, for the log on standard error."""
    registry.add(
        Counter(
            "headgate_log_lines",
            "Lines of the log on standard error; result is written or dropped (nobody reads them fast "
            "enough, or the disk is full).",
            ("result",),
            _log_lines,
        )
    )


def _log_lines() -> Iterable[tuple[tuple[str, ...], float]]:
    counts = [
        each.lines.statistics() for each in logging.getLogger().handlers if isinstance(each, LineHandler)
    ]
    for result in ("written", "dropped"):
        yield (result,), sum(each[f"lines_{result}"] for each in counts)
