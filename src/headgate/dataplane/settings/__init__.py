"""The sections of settings that every process of the data path has: the gateway, and the endpoint picker."""

from __future__ import annotations

from typing import Protocol

from headgate.dataplane.settings.endpoints import Endpoints, EngineMetrics, Prefill, Scheduling
from headgate.dataplane.settings.flow import Queue, RateLimits, weight
from headgate.dataplane.settings.peers import Peers
from headgate.dataplane.settings.section import DAY_S, Section, derived, port, setting
from headgate.dataplane.settings.serving import Kubernetes, Logging, Metrics, Shutdown, Workers
from headgate.dataplane.settings.tracing import Tracing

__all__ = [
    "DAY_S",
    "DataPlaneSettings",
    "Endpoints",
    "EngineMetrics",
    "Kubernetes",
    "Logging",
    "Metrics",
    "Peers",
    "Prefill",
    "Queue",
    "RateLimits",
    "Scheduling",
    "Section",
    "Shutdown",
    "Tracing",
    "Workers",
    "derived",
    "port",
    "setting",
    "weight",
]


class DataPlaneSettings(Protocol):
    """The sections that decisions, queues and readers of engines depend on."""

    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def engine_metrics(self) -> EngineMetrics: ...
    @property
    def prefill(self) -> Prefill: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def rate_limits(self) -> RateLimits: ...
    @property
    def scheduling(self) -> Scheduling: ...
    @property
    def workers(self) -> Workers: ...
