"""Reads the metrics of Pods at their metricEndpoint.

A Pod that does not answer in time, or without a valid value, has no value: it is missing, and never taken
for idle. Each target has a deadline of its own and few connections, so that slow Pods delay no others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from headgate import api
from headgate.autoscaling.histograms import Bucket, HistogramError, merged, quantile
from headgate.autoscaling.samples import PodSample
from headgate.controllers.autoscaling.readings import (
    EXPIRED_WINDOWS,
    WINDOW_S,
    Name,
    Reading,
    Readings,
    read,
)
from headgate.engine_client import Client, FetchError, LargeResponses
from headgate.engines import PageTooLargeError
from headgate.loop_turns import Turns
from headgate.routing.endpoints import is_page_path

log = logging.getLogger(__name__)

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
POD_S: Final = 3.0
"""For one Pod to send its page."""
MAX_OF_TARGET: Final = 16
"""Pods of one target that are read at a time."""
MAX_OF_ALL: Final = 128
"""Pods that are read at a time."""
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
        self._places = asyncio.Semaphore(MAX_OF_ALL)
        self._large = LargeResponses()
        self._pods: dict[_Key, _Pod] = {}
        self._swept_at = clock()
        self.reads = {"read": 0, "failed": 0}
        """Pages so far, for metrics."""

    async def read(
        self, pods: Sequence[api.Pod], port: int, uri: str, names: Sequence[str], deadline_s: float
    ) -> list[PodSample]:
        """One sample of each Pod, with the values that could be measured within `deadline_s` seconds.

        Each Pod gets the quantile of a histogram over all Pods together, as that of a single one would be
        chance.
        """
        wanted = {name: Name.of(name) for name in names[:MAX_NAMES]}
        families = {name.family for name in wanted.values()}
        read = await self._pages(pods, port, uri, families, deadline_s) if families else {}
        return self._samples(pods, (port, uri), wanted, read)

    def problem(self, pod: api.Pod, port: int, uri: str) -> str:
        """Why the last read of a Pod failed, in words that follow its name; empty if it did not."""
        known = self._pods.get((pod.metadata.uid, port, uri))
        return known.problem if known is not None else ""

    def statistics(self) -> dict[str, int]:
        return {"pods": len(self._pods), **self.reads}

    async def _pages(
        self, pods: Sequence[api.Pod], port: int, uri: str, families: Iterable[str], deadline_s: float
    ) -> dict[str, Mapping[str, Reading]]:
        """The readings of all Pods that answer in time, by UID."""
        few = asyncio.Semaphore(MAX_OF_TARGET)
        turns = Turns(asyncio.get_running_loop())
        found: dict[str, Mapping[str, Reading]] = {}

        async def one(pod: api.Pod) -> None:
            known = self._pods.setdefault((pod.metadata.uid, port, uri), _Pod(self._over_s))
            known.used_at = self._clock()
            known.problem = f"was not read within {deadline_s:g} s, as other Pods are slow"
            async with few, self._places:
                known.problem = f"sent no page within {deadline_s:g} s"
                client = Client(pod.status.pod_ip, port, None, "", turns=turns, large=self._large)
                try:
                    found[pod.metadata.uid] = await self._read_page(client, uri, families)
                    known.problem = ""
                    self.reads["read"] += 1
                except (FetchError, PageTooLargeError) as error:
                    known.problem = str(error)
                    self.reads["failed"] += 1
                except Exception:
                    # Our own error with some page: the other Pods must not suffer from it.
                    log.exception("reading the metrics of Pod %s", pod.metadata.key)
                    known.problem = "has a page that could not be read: see the log"
                    self.reads["failed"] += 1
                finally:
                    client.close()

        tasks = [asyncio.create_task(one(pod)) for pod in pods if pod.ready and pod.status.pod_ip]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=deadline_s)
        finally:
            late = [task for task in tasks if not task.done()]
            self.reads["failed"] += len(late)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    async def _read_page(self, client: Client, uri: str, families: Iterable[str]) -> Mapping[str, Reading]:
        if not is_page_path(uri):
            raise FetchError(f"cannot be asked for {uri[:64]!r}: it must begin with / and have no spaces")
        response = await client.get(uri, "text/plain", MAX_PAGE_BYTES, POD_S)
        if response.status != 200:
            raise FetchError(f"answers {response.status} to GET {uri}")
        readings = {family: read(response.body, family) for family in families}
        return {family: reading for family, reading in readings.items() if reading is not None}

    def _samples(
        self,
        pods: Sequence[api.Pod],
        page: tuple[int, str],
        wanted: Mapping[str, Name],
        read: Mapping[str, Mapping[str, Reading]],
    ) -> list[PodSample]:
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
        return [
            PodSample(pod.metadata.name, pod.ready, values[pod.metadata.uid], _created_at(pod))
            for pod in pods
        ]

    def _sweep(self, now: float) -> None:
        """Forget Pods that nobody has asked for a while."""
        if now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        expired_s = EXPIRED_WINDOWS * self._over_s
        for key in [key for key, pod in self._pods.items() if now - pod.used_at > expired_s]:
            del self._pods[key]


class _Measured(NamedTuple):
    """One metric of one Pod."""

    value: float = 0.0
    buckets: tuple[Bucket, ...] | None = None
    """Of a histogram."""


class _Pod:
    """One page of one Pod."""

    __slots__ = ("_over_s", "_readings", "problem", "used_at")

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self.problem = ""
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


def _created_at(pod: api.Pod) -> float | None:
    """In seconds since the epoch."""
    try:
        return datetime.fromisoformat(pod.metadata.creation_timestamp).timestamp()
    except ValueError:
        return None
