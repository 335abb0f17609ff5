"""What is known of the targets of a binding at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headgate import api
from headgate.api.kthena_registry import MetricEndpoint
from headgate.autoscaling import Observation, PodSample, Policy, Total
from headgate.controllers.autoscaling.targets import Target

FROM_GATEWAYS = "headgate:"
"""Metrics whose names begin so come from gateways; those of Pods have other names."""


class Reader(Protocol):
    """Reads the metrics of Pods."""

    async def read(
        self, pods: Sequence[api.Pod], port: int, uri: str, names: Sequence[str], deadline_s: float
    ) -> Sequence[PodSample]: ...


class Found(NamedTuple):
    """A target with its Pods."""

    target: Target
    pods: Sequence[api.Pod]
    """Those that are not leaving."""
    current: int

    @property
    def ready(self) -> int:
        return sum(pod.ready for pod in self.pods)


async def observe(
    reader: Reader, found: Sequence[Found], policy: Policy, now: float, deadline_s: float
) -> Observation:
    """All targets of a binding together."""
    names = [each.name for each in policy.metrics if not each.name.startswith(FROM_GATEWAYS)]
    samples: list[PodSample] = []
    for each in found:
        configured = each.target.configuration.target
        endpoint = configured.metric_endpoint if configured is not None else MetricEndpoint()
        samples += await reader.read(each.pods, endpoint.port, endpoint.uri, names, deadline_s)
    totals: dict[str, Total] = {}
    return Observation(
        now=now,
        current=sum(each.current for each in found),
        ready=sum(each.ready for each in found),
        pods=samples,
        totals=totals,
    )
