"""Metrics of requests by the Gateway API that do not reach a model: to Services, redirects, and faults."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headgate.dataplane.records.access_log import Forwarded
from headgate.telemetry import Counter, Histogram, Registry

NONE: Final = "none"


class ServiceMetrics:
    """Counts each request once, when it is over."""

    def __init__(self, registry: Registry | None) -> None:
        self._ended = Counter(
            "headgate_gateway_service_requests",
            "Requests by the Gateway API for which this gateway did not pick an endpoint of a pool, by their "
            "end: the status that the client received (499: it left before), and `served`, `client_gone`, or "
            "the error code.",
            ("route", "service", "code", "outcome"),
        )
        self._duration = Histogram(
            "headgate_gateway_service_request_duration_seconds",
            "From a request's arrival to its end.",
            ("service",),
        )
        self._mirrored = Counter(
            "headgate_gateway_mirrored_requests",
            "Copies of requests for RequestMirror filters; outcome is `sent`, or why not.",
            ("outcome",),
        )
        self._picker_failures = Counter(
            "headgate_gateway_picker_failures",
            "Requests whose pool has an endpoint picker that could not be asked; mode is `open` if this "
            "gateway picked, and `closed` if the request was refused.",
            ("pool", "mode"),
        )
        if registry is not None:
            registry.add(self._ended, self._duration, self._mirrored, self._picker_failures)

    def ended(self, request: Forwarded, now: float) -> None:
        """A request is over."""
        route, service = request.route or NONE, request.service or NONE
        self._ended.labels(route, service, str(request.status), request.outcome).value += 1
        self._duration.labels(service).observe(now - request.arrived_at)

    def mirrored(self, outcome: str) -> None:
        """A copy was sent, or not."""
        self._mirrored.labels(outcome).value += 1

    def picker_failed(self, pool: str, mode: str) -> None:
        """A picker could not be asked."""
        self._picker_failures.labels(pool, mode).value += 1

    def keep(self, routes: Collection[str], services: Collection[str]) -> None:
        """Delete the series of all others."""
        self._ended.keep("route", {*routes, NONE})
        self._ended.keep("service", {*services, NONE})
        self._duration.keep("service", {*services, NONE})
