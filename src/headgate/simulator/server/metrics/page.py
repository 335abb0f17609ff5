"""Writes a page from readings, by the names of an engine."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from headgate.simulator.server.metrics import sglang, trtllm, vllm
from headgate.simulator.server.metrics.histogram import Histogram
from headgate.simulator.server.metrics.series import Reading, Series

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_NAMINGS = {
    ("vllm", "new"): (vllm.labels, vllm.new_series),
    ("vllm", "old"): (vllm.labels, vllm.old_series),
    ("sglang", "new"): (sglang.labels, sglang.series),
    ("trtllm", "new"): (trtllm.labels, trtllm.series),
}


class MetricsPage(Collector):
    """Renders /metrics, in a registry of its own. `extra` adds series that no engine has."""

    def __init__(
        self,
        engine: str,
        generation: str,
        readings: Callable[[], Iterable[Reading]],
        extra: Callable[[], Iterable[Series]],
    ) -> None:
        self._labels, self._series = _NAMINGS[engine, generation]
        self._readings = readings
        self._extra = extra
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for series in self._all():
            family = families.get(series.name)
            if family is None:
                family = families[series.name] = _family(series)
            values = list(series.labels.values())
            if isinstance(series.value, Histogram):
                family.add_metric(values, series.value.buckets(), series.value.sum)  # type: ignore[attr-defined]
            else:
                family.add_metric(values, series.value)  # type: ignore[attr-defined]
        return families.values()

    def _all(self) -> Iterator[Series]:
        for reading in self._readings():
            labels = self._labels(reading)
            for series in self._series(reading):
                yield series._replace(labels=labels | series.labels)
        yield from self._extra()


def generations(engine: str) -> list[str]:
    """The generations of names that an engine has."""
    return [generation for name, generation in _NAMINGS if name == engine]


def _family(series: Series) -> Metric:
    kinds: dict[str, type[Metric]] = {
        "gauge": GaugeMetricFamily,
        "counter": CounterMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    return kinds[series.kind](series.name, series.documentation, labels=list(series.labels))  # type: ignore[call-arg]
