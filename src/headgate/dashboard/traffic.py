"""Rates and latencies of the last minute, from the counters that workers report every few seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from headgate.telemetry.sums import Family

WINDOW_S: Final = 60.0
STEP_S: Final = 4.0
"""Samples are not closer together: each asks all workers for their metrics."""
MAX_KEYS: Final = 5000
"""Series of a sample; the others are left out."""
PREFIX: Final = "headgate_gateway"
REQUESTS, TOKENS = f"{PREFIX}_requests", f"{PREFIX}_tokens"
FIRST_TOKEN, PER_TOKEN = f"{PREFIX}_time_to_first_token_seconds", f"{PREFIX}_time_per_output_token_seconds"
TENANT_REQUESTS, TENANT_TOKENS = f"{PREFIX}_tenant_requests", f"{PREFIX}_tenant_tokens"
SERVICE_REQUESTS: Final = f"{PREFIX}_service_requests"
"""Those of HTTPRoutes for which no endpoint of a pool was picked."""
NAMES: Final = frozenset(
    {REQUESTS, TOKENS, FIRST_TOKEN, PER_TOKEN, TENANT_REQUESTS, TENANT_TOKENS, SERVICE_REQUESTS}
)
DROPPED: Final = ("queue_", "evicted", "pool_saturated")
"""How outcomes of requests begin that a pool had no capacity for."""

Key = tuple[str, ...]
Counts = dict[Key, list[float]]


class Sample(NamedTuple):
    """Counters at one moment, by the name of their metric and the labels that the dashboard keeps apart."""

    at: float
    counts: Counts


class Row(NamedTuple):
    """Requests of one name."""

    per_s: float | None
    """None before there are two samples."""
    client_errors: float | None
    """Share of the last minute's requests with a status of 400 to 499."""
    server_errors: float | None
    """Share with 500 and more."""
    total: int
    """Since the gateway started."""


class Latency(NamedTuple):
    """Of one model in one pool, in the last minute."""

    model: str
    pool: str
    requests: Row
    first_token_s: tuple[float | None, float | None]
    """Median, and what 95 % do not exceed."""
    per_token_s: tuple[float | None, float | None]
    input_per_s: float | None
    output_per_s: float | None
    dropped: float | None
    """Share of the last minute's requests that got 429 because their pool had no capacity."""


class Traffic:
    """Samples of the last minute, taken while somebody looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque()
        self._bounds: dict[str, Sequence[float]] = {}

    @property
    def is_due(self) -> bool:
        """Whether the last sample is old enough for another one."""
        return not self._samples or self._clock() - self._samples[-1].at >= STEP_S

    def take(self, families: Iterable[Family]) -> None:
        """Add a sample, unless the last one is recent."""
        if not self.is_due:
            return
        now = self._clock()
        counts: Counts = {}
        for family in families:
            if family.kind == "histogram":
                self._bounds[family.name] = family.bounds
            for key, values in _series(family):
                known = counts.get(key)
                if known is not None:
                    counts[key] = [a + b for a, b in zip(known, values, strict=True)]
                elif len(counts) < MAX_KEYS:
                    counts[key] = values
        self._samples.append(Sample(now, counts))
        while len(self._samples) > 2 and now - self._samples[1].at >= WINDOW_S:
            self._samples.popleft()
        while len(self._samples) > 1 and now - self._samples[0].at > 2 * WINDOW_S:
            self._samples.popleft()  # nobody has looked for a while

    @property
    def has_rates(self) -> bool:
        return len(self._samples) > 1

    def route(self, name: str) -> Row:
        return self._row(REQUESTS, "route", name)

    def tenant(self, name: str) -> Row:
        return self._row(TENANT_REQUESTS, name)

    def tenant_tokens(self, name: str) -> tuple[int, int]:
        """Input and output tokens, since the gateway started."""
        return self._total(TENANT_TOKENS, name, "input"), self._total(TENANT_TOKENS, name, "output")

    def models(self, most: int) -> tuple[list[Latency], int]:
        """Each model in each pool that has had requests, by name; if there are more than `most`, the busiest
        ones. And how many there are."""
        if not self._samples:
            return [], 0
        last, first = self._samples[-1].counts, self._samples[0].counts
        names: dict[Key, tuple[float, float]] = {}
        for key, values in last.items():
            if key[:2] == (REQUESTS, "model"):
                total, (lately, ever) = values[0], names.get(key[2:4], (0.0, 0.0))
                names[key[2:4]] = lately + total - first.get(key, (0.0,))[0], ever + total
        chosen = sorted(names)
        if len(chosen) > most:
            chosen = sorted(names, key=names.__getitem__, reverse=True)[:most]
        return [self._latency(model, pool) for model, pool in chosen], len(names)

    def _latency(self, model: str, pool: str) -> Latency:
        return Latency(
            model,
            pool,
            self._row(REQUESTS, "model", model, pool),
            self._quantiles(FIRST_TOKEN, model, pool),
            self._quantiles(PER_TOKEN, model, pool),
            self._rate(TOKENS, model, pool, "input"),
            self._rate(TOKENS, model, pool, "output"),
            self._dropped(model, pool),
        )

    def _dropped(self, model: str, pool: str) -> float | None:
        per_s = self._row(REQUESTS, "model", model, pool).per_s
        return (self._rate(REQUESTS, "dropped", model, pool) or 0.0) / per_s if per_s else None

    def _row(self, *key: str) -> Row:
        total = sum(self._total(*key, kind) for kind in ("good", "client", "server"))
        rates = {kind: self._rate(*key, kind) for kind in ("good", "client", "server")}
        if any(rate is None for rate in rates.values()):
            return Row(None, None, None, total)
        per_s = sum(rate or 0.0 for rate in rates.values())
        if not per_s:
            return Row(0.0, None, None, total)
        return Row(per_s, (rates["client"] or 0.0) / per_s, (rates["server"] or 0.0) / per_s, total)

    def _total(self, *key: str) -> int:
        return int(self._samples[-1].counts.get(key, [0.0])[0]) if self._samples else 0

    def _rate(self, *key: str) -> float | None:
        """Per second; None before there are two samples."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        more = last.counts.get(key, [0.0])[0] - first.counts.get(key, [0.0])[0]
        return max(more, 0.0) / (last.at - first.at)

    def _quantiles(self, *key: str) -> tuple[float | None, float | None]:
        if len(self._samples) < 2:
            return None, None
        last = self._samples[-1].counts.get(key, [])
        first = self._samples[0].counts.get(key, [0.0] * len(last))
        counts = [max(b - a, 0.0) for a, b in zip(first, last, strict=True)]
        bounds = self._bounds.get(key[0], ())
        return quantile(0.5, bounds, counts), quantile(0.95, bounds, counts)


def _series(family: Family) -> Iterable[tuple[Key, list[float]]]:
    """What of a family is kept: requests by route, by model and pool, and by tenant; each by good and bad
    ends."""
    for sample in family.samples:
        if family.name == REQUESTS:
            model, route, pool, code, outcome = sample.labels
            kind = _kind(code)
            yield (REQUESTS, "route", route, kind), [sample.value]
            yield (REQUESTS, "model", model, pool, kind), [sample.value]
            if outcome.startswith(DROPPED):
                yield (REQUESTS, "dropped", model, pool), [sample.value]
        elif family.name == SERVICE_REQUESTS:
            route, _, code, _ = sample.labels
            yield (REQUESTS, "route", route, _kind(code)), [sample.value]
        elif family.name == TENANT_REQUESTS:
            tenant, code = sample.labels
            yield (TENANT_REQUESTS, tenant, _kind(code)), [sample.value]
        elif family.kind == "histogram":
            yield (family.name, *sample.labels), [float(count) for count in sample.counts]
        elif family.name in (TOKENS, TENANT_TOKENS):
            yield (family.name, *sample.labels), [sample.value]


def _kind(code: str) -> str:
    return "server" if code >= "500" else "client" if code >= "400" else "good"


def quantile(share: float, bounds: Sequence[float], counts: Sequence[float]) -> float | None:
    """The value that this share of the samples does not exceed, as Prometheus' histogram_quantile estimates
    it; None without samples. Above the last bound it is that bound."""
    total = sum(counts)
    if not total:
        return None
    wanted, seen, low = share * total, 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and seen + count >= wanted:
            return low + (bound - low) * (wanted - seen) / count
        seen += count
        low = bound
    return low
