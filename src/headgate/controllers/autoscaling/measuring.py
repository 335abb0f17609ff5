"""Measures the targets of a binding: pages of their Pods, and queries of a Prometheus server."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.api.kthena_registry import MetricEndpoint
from headgate.autoscaling import Policy, Total
from headgate.controllers.autoscaling import observing
from headgate.controllers.autoscaling.observing import Found
from headgate.controllers.autoscaling.pod_metrics import PodMetrics
from headgate.controllers.autoscaling.prometheus import MEAN, Prometheus, is_query, query_of
from headgate.controllers.autoscaling.settings import AutoscalingSettings


@dataclass
class Measured:
    """What was measured of the targets of one binding, and when."""

    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of Pods, by UID."""
    totals: Mapping[str, Total] = field(default_factory=dict)
    """Of queries."""
    ready: Collection[str] = frozenset()
    """UIDs of the Pods that were ready then."""
    at: float = 0.0
    problems: tuple[str, ...] = ()
    """Why something was not measured."""


class Meter:
    """Measures, no more often than the settings say."""

    def __init__(self, settings: AutoscalingSettings, prometheus: Prometheus | None) -> None:
        self._settings = settings
        self._prometheus = prometheus
        self._pods = PodMetrics(over_s=settings.over_s)

    async def measure(self, measured: Measured, policy: Policy, found: Sequence[Found], now: float) -> bool:
        """Update what is measured, if it is time to: at once if other Pods are ready than the last time, as
        the load moves. Returns whether that took time."""
        names = [each.name for each in policy.metrics if not observing.is_signal(each.name)]
        of_pods = [each for each in names if not is_query(each)]
        if len(found) > 1:
            of_pods.append(observing.SERVED)
        if not names and not of_pods:
            return False
        ready = frozenset().union(*(each.ready_uids for each in found))
        if 0 <= now - measured.at < 0.9 * self._settings.period_s and ready == measured.ready:
            return False
        problems: list[str] = []
        queries = [each for each in names if is_query(each)]
        measured.values, measured.totals = await asyncio.gather(
            self._of_pods(of_pods, found, problems), self._of_queries(queries, found, problems)
        )
        measured.ready, measured.at, measured.problems = ready, now, tuple(problems)
        return True

    async def aclose(self) -> None:
        self._pods.close()
        if self._prometheus is not None:
            await self._prometheus.close()

    def statistics(self) -> dict[str, int]:
        """Pages and queries that were read, or that failed."""
        queries = self._prometheus.queries if self._prometheus is not None else {}
        pages = self._pods.reads
        return {
            "pages": pages["read"],
            "pages_failed": pages["failed"],
            "queries": queries.get("read", 0),
            "queries_failed": queries.get("failed", 0),
        }

    async def _of_pods(
        self, names: Sequence[str], found: Sequence[Found], problems: list[str]
    ) -> Mapping[str, Mapping[str, float]]:
        values: dict[str, Mapping[str, float]] = {}
        if not names:
            return values
        pages = [_page_of(each) for each in found]
        deadline_s = self._settings.deadline_s
        read = await asyncio.gather(
            *(
                self._pods.read(each.pods, page.port, page.uri, names, deadline_s)
                for each, page in zip(found, pages, strict=True)
            )
        )
        for each, page, measured in zip(found, pages, read, strict=True):
            for pod, own in zip(each.pods, measured, strict=True):
                values[pod.metadata.uid] = own
                if problem := self._pods.problem(pod, page.port, page.uri):
                    problems.append(f"Pod {pod.metadata.name} at port {page.port} {problem}")
        return values

    async def _of_queries(
        self, names: Sequence[str], found: Sequence[Found], problems: list[str]
    ) -> Mapping[str, Total]:
        if not names:
            return {}
        if self._prometheus is None:
            problems.append("no Prometheus is known: name one to the controller with --prometheus")
            return {}
        places = {(each.target.workload.namespace, each.target.workload.name) for each in found}
        by_query: dict[str, dict[str, Total | None]] = {name: {} for name in names}
        ordered, deadline_s = sorted(places), self._settings.deadline_s
        asked = await asyncio.gather(
            *(self._prometheus.totals(names, namespace, name, deadline_s) for namespace, name in ordered)
        )
        for (namespace, name), totals in zip(ordered, asked, strict=True):
            for metric in names:
                # A query that does not depend on the target is about all of them.
                by_query[metric][query_of(metric, namespace, name)] = totals.get(metric)
                if problem := self._prometheus.problem(metric, namespace, name):
                    problems.append(f"{metric[:64]}: {problem}")
        return {
            name: total for name, each in by_query.items() if (total := _together(name, each)) is not None
        }


def _page_of(found: Found) -> MetricEndpoint:
    configured = found.target.configuration.target
    return configured.metric_endpoint if configured is not None else MetricEndpoint()


def _together(metric: str, totals: Mapping[str, Total | None]) -> Total | None:
    values = [each.value for each in totals.values() if each is not None]
    if len(values) < len(totals):
        return None
    is_ratio = metric.startswith(MEAN)
    return Total(sum(values) / len(values) if is_ratio else sum(values), is_ratio)
