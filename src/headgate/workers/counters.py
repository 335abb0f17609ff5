"""The supervisor's own metrics."""

from __future__ import annotations

from headgate import telemetry


class Counters:
    """What the supervisor counts, beside the sums of its workers' metrics."""

    def __init__(self) -> None:
        self.restarts = telemetry.Counter(
            "headgate_gateway_worker_restarts", "Workers started to replace one that ended unexpectedly."
        )
        self.page_rejections = telemetry.Counter(
            "headgate_gateway_page_connections_rejected",
            "Connections to the metrics page and the admin pages closed for exceeding a limit.",
            ("page", "reason"),
        )
        self.page_requests_rejected = telemetry.Counter(
            "headgate_gateway_page_requests_rejected",
            "Requests for the metrics page and the admin pages rejected for their host, their origin or "
            "their credentials; reason is unknown_host (421), other_origin (403), or the code of the error.",
            ("page", "reason"),
        )

    def add_to(self, registry: telemetry.Registry) -> None:
        registry.add(self.restarts, self.page_rejections, self.page_requests_rejected)
