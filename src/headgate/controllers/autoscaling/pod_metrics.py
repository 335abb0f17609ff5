"""Measures the metrics of Pods at their metricEndpoint.

A Pod that does not answer in time, or without a valid value, has no value: it is missing, and never taken
for idle. Each target has a deadline of its own and few reads at a time, so that slow Pods delay no others.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headgate import api
from headgate.autoscaling.histograms import Bucket, HistogramError, merged, quantile
from headgate.controllers.autoscaling.pod_pages import PageReader, PodPage
from headgate.controllers.autoscaling.readings import (
    EXPIRED_WINDOWS,
    WINDOW_S,
    Name,
    Reading,
    Readings,
    read,
)
from headgate.engine_client import Response
from headgate.engines import PageTooLargeError
from headgate.routing.endpoints import is_page_path

log = logging.getLogger(__name__)

SWEEP_S: Final = 60.0
MAX_NAMES: Final = 64
"""Metrics of one policy that are read."""

_Key = tuple[str, int, str]
"""The UID of a Pod, and its page."""


class PodMetrics:
    """Reads Pods, and remembers the totals that they reported before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, over_s: float = WINDOW_S) -> None:
        """Counters and histograms are about the last `over_s` seconds."""
        self._clock = clock
        self._over_s = over_s
        self._reader = PageReader()
        self._pods: dict[_Key, _Pod] = {}
        self._swept_at = clock()
        self.reads = {"read": 0, "failed": 0}
        """Pages so far, for metrics."""

    async def read(
        self, pods: Sequence[api.Pod], port: int, uri: str, names: Sequence[str], deadline_s: float
    ) -> list[dict[str, float]]:
        """The values of each Pod that could be measured within `deadline_s` seconds.

        Each Pod gets the quantile of a histogram over all Pods together, as that of a single one would be
        chance.
        """
        wanted = {name: Name.of(name) for name in names[:MAX_NAMES]}
        families = {name.family for name in wanted.values()}
        read = await self._pages(pods, port, uri, families, deadline_s) if families else {}
        return self._values(pods, (port, uri), wanted, read)

    def problem(self, pod: api.Pod, port: int, uri: str) -> str:
        """Why the last read of a Pod failed, in words that follow its name; empty if it did not."""
        known = self._pods.get((pod.metadata.uid, port, uri))
        return known.page.problem if known is not None else ""

    def close(self) -> None:
        """Disconnect from all Pods."""
        for pod in self._pods.values():
            self._reader.drop(pod.page)

    def statistics(self) -> dict[str, int]:
        return {"pods": len(self._pods), "connections": self._reader.kept, **self.reads}

    async def _pages(
        self, pods: Sequence[api.Pod], port: int, uri: str, families: Iterable[str], deadline_s: float
    ) -> dict[str, Mapping[str, Reading]]:
        """The readings of all Pods that answer in time, by UID."""
        asked = [pod for pod in pods if pod.ready and pod.status.pod_ip]
        pages = [self._page(pod, port, uri) for pod in asked]
        if wrong := _wrong(port, uri):
            for page in pages:
                page.problem = wrong
            responses: Sequence[Response | None] = [None] * len(pages)
        else:
            responses = await self._reader.fetch(pages, port, uri, deadline_s)
        found: dict[str, Mapping[str, Reading]] = {}
        for pod, page, response in zip(asked, pages, responses, strict=True):
            readings = self._readings(pod, page, uri, families, response) if response is not None else None
            if readings is not None:
                found[pod.metadata.uid] = readings
            self.reads["failed" if readings is None else "read"] += 1
        return found

    def _page(self, pod: api.Pod, port: int, uri: str) -> PodPage:
        known = self._pods.setdefault((pod.metadata.uid, port, uri), _Pod(self._over_s))
        known.used_at = self._clock()
        if known.page.address != pod.status.pod_ip:
            self._reader.drop(known.page)
            known.page = PodPage()
            known.page.address = pod.status.pod_ip
        return known.page

    def _readings(
        self, pod: api.Pod, page: PodPage, uri: str, families: Iterable[str], response: Response
    ) -> Mapping[str, Reading] | None:
        """None, with a problem, if the page cannot be read."""
        if response.status != 200:
            page.problem = f"answers {response.status} to GET {uri}"
            return None
        try:
            readings = {family: read(response.body, family) for family in families}
        except PageTooLargeError as error:
            page.problem = str(error)
            return None
        except Exception:
            # Our own error with some page: the other Pods must not suffer from it.
            log.exception("reading the metrics of Pod %s", pod.metadata.key)
            page.problem = "has a page that could not be read: see the log"
            return None
        return {family: reading for family, reading in readings.items() if reading is not None}

    def _values(
        self,
        pods: Sequence[api.Pod],
        page: tuple[int, str],
        wanted: Mapping[str, Name],
        read: Mapping[str, Mapping[str, Reading]],
    ) -> list[dict[str, float]]:
        now = self._clock()
        changes = {
            uid: self._pods[(uid, *page)].changes(readings, now)
            for uid, readings in read.items()
            if (uid, *page) in self._pods
        }
        self._sweep(now)
        values: dict[str, dict[str, float]] = {pod.metadata.uid: {} for pod in pods}
        for metric, name in wanted.items():
            measured = {uid: each[name.family] for uid, each in changes.items() if name.family in each}
            for uid, value in _by_pod(measured, name.quantile).items():
                values[uid][metric] = value
        return [values[pod.metadata.uid] for pod in pods]

    def _sweep(self, now: float) -> None:
        """Forget Pods that nobody has asked for a while."""
        if now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        expired_s = EXPIRED_WINDOWS * self._over_s
        for key in [key for key, pod in self._pods.items() if now - pod.used_at > expired_s]:
            self._reader.drop(self._pods.pop(key).page)


def _wrong(port: int, uri: str) -> str:
    """Why no Pod can be asked; or empty."""
    if not is_page_path(uri):
        return f"cannot be asked for {uri[:64]!r}: it must begin with / and have no spaces"
    if not 0 < port < 65_536:
        return "cannot be asked: a port is a number from 1 to 65535"
    return ""


class _Measured(NamedTuple):
    """One metric of one Pod."""

    value: float = 0.0
    buckets: tuple[Bucket, ...] | None = None
    """Of a histogram."""


class _Pod:
    """One page of one Pod."""

    __slots__ = ("_over_s", "_readings", "page", "used_at")

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self.page = PodPage()
        self.used_at = -math.inf
        self._readings: dict[str, Readings] = {}

    def changes(self, readings: Mapping[str, Reading], now: float) -> dict[str, _Measured]:
        """What is measured by these readings and earlier ones."""
        found: dict[str, _Measured] = {}
        for family, reading in readings.items():
            if reading.kind == "gauge":
                found[family] = _Measured(reading.value)
                continue
            change = self._readings.setdefault(family, Readings(self._over_s)).add(reading, now)
            if change is not None:
                is_histogram = reading.kind == "histogram"
                found[family] = _Measured(change.per_s, change.buckets if is_histogram else None)
        return found


def _by_pod(measured: Mapping[str, _Measured], share: float) -> dict[str, float]:
    """The value of each Pod."""
    found = {uid: each.value for uid, each in measured.items() if each.buckets is None}
    histograms = {uid: each.buckets for uid, each in measured.items() if each.buckets is not None}
    if not histograms:
        return found
    try:
        together = quantile(merged(histograms.values()), share)
        return found | dict.fromkeys(histograms, together)
    except HistogramError:  # Pods of two versions may have different buckets
        return found | {uid: quantile(buckets, share) for uid, buckets in histograms.items()}
