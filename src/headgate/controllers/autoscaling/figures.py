"""Metrics of a controller process about autoscaling, from the last pass over each binding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headgate import api
from headgate.autoscaling import Decision
from headgate.telemetry import Counter, Gauge, Registry

Sample = tuple[tuple[str, ...], float]


class Report(NamedTuple):
    """What the last pass over a binding came to."""

    reason: str = ""
    """Why it does not scale; empty if it does."""
    decision: Decision | None = None
    least: int = 0
    most: int = 0
    start_s: float | None = None
    """How long a start is expected to take."""


class Figures:
    """Collects reports and counts."""

    def __init__(self) -> None:
        self.reports: dict[api.ObjectKey, Report] = {}
        self.passes = 0
        self.went = {"up": 0, "down": 0}
        """Changes of replicas that were written."""

    def take(self, key: api.ObjectKey, report: Report) -> None:
        """Take over the report of a pass."""
        self.passes += 1
        self.reports[key] = report
        decision = report.decision
        if decision is not None and decision.desired != decision.current:
            self.went["up" if decision.desired > decision.current else "down"] += 1

    def forget(self, key: api.ObjectKey) -> None:
        self.reports.pop(key, None)


def add_figures(registry: Registry, figures: Figures, reads: Callable[[], dict[str, int]]) -> None:
    """`reads` counts pages, queries and gateways."""

    def of_decisions(
        values: Callable[[Report, Decision], Iterable[tuple[tuple[str, ...], float | None]]],
    ) -> Callable[[], Iterable[Sample]]:
        def read() -> Iterator[Sample]:
            for key, report in figures.reports.items():
                if report.decision is not None:
                    for labels, value in values(report, report.decision):
                        if value is not None:
                            yield (str(key), *labels), value

        return read

    registry.add(
        Gauge(
            "headgate_controller_autoscaling_not_ready",
            "1 for a binding that does not scale, with the reason of its condition Ready.",
            ("binding", "reason"),
            lambda: [((str(key), each.reason), 1.0) for key, each in figures.reports.items() if each.reason],
        ),
        Gauge(
            "headgate_controller_autoscaling_replicas",
            "Replicas of all targets of a binding: current, desired, recommended (by the metrics, before any "
            "rule), minimum and maximum.",
            ("binding", "kind"),
            of_decisions(
                lambda report, decision: [
                    (("current",), decision.current),
                    (("desired",), decision.desired),
                    (("recommended",), decision.recommended),
                    (("minimum",), report.least),
                    (("maximum",), report.most),
                ]
            ),
        ),
        Gauge(
            "headgate_controller_autoscaling_panic",
            "1 while a binding is in panic mode.",
            ("binding",),
            of_decisions(lambda _, decision: [((), float(decision.is_panic))]),
        ),
        Gauge(
            "headgate_controller_autoscaling_metric_value",
            "Value of a metric of a policy: the sum over the replicas, or their mean if it is a ratio.",
            ("binding", "metric"),
            of_decisions(lambda _, decision: [((each.name,), each.value) for each in decision.metrics]),
        ),
        Gauge(
            "headgate_controller_autoscaling_metric_target",
            "The value that each replica should have.",
            ("binding", "metric"),
            of_decisions(lambda _, decision: [((each.name,), each.target) for each in decision.metrics]),
        ),
        Gauge(
            "headgate_controller_autoscaling_metrics_missing",
            "Metrics of a policy that could not be measured.",
            ("binding",),
            of_decisions(lambda _, one: [((), sum(each.value is None for each in one.metrics))]),
        ),
        Gauge(
            "headgate_controller_autoscaling_start_seconds",
            "How long a new replica is expected to take until it is ready.",
            ("binding",),
            of_decisions(lambda report, _: [((), report.start_s)]),
        ),
        Gauge(
            "headgate_controller_autoscaling_forecast_error_replicas",
            "Mean error of the forecast, and of taking the present need as the future one (method none).",
            ("binding", "method"),
            of_decisions(lambda _, decision: _errors(decision)),
        ),
        Gauge(
            "headgate_controller_autoscaling_forecast_used",
            "1 while a forecast is better than none, and is used.",
            ("binding",),
            of_decisions(
                lambda _, one: [((), float(bool(one.outlook.method)) if one.outlook is not None else None)]
            ),
        ),
    )
    registry.add(
        Counter(
            "headgate_controller_autoscaling_passes",
            "Times that a binding was looked at.",
            read=lambda: [((), float(figures.passes))],
        ),
        Counter(
            "headgate_controller_autoscaling_scalings",
            "Changes of replicas.",
            ("direction",),
            lambda: [((direction,), float(number)) for direction, number in figures.went.items()],
        ),
        Counter(
            "headgate_controller_autoscaling_reads",
            "Pages of Pods and queries of Prometheus that were read, or failed.",
            ("source", "result"),
            lambda: _reads(reads()),
        ),
        Gauge(
            "headgate_controller_autoscaling_gateways",
            "Gateways whose signals are followed, and those among them that tell.",
            ("state",),
            lambda: [
                (("followed",), float(reads()["gateways"])),
                (("known",), float(reads()["gateways_known"])),
            ],
        ),
    )


def _errors(decision: Decision) -> list[tuple[tuple[str, ...], float | None]]:
    outlook = decision.outlook
    if outlook is None:
        return []
    return [((outlook.method or "best",), outlook.error), (("none",), outlook.error_without)]


def _reads(counts: dict[str, int]) -> list[Sample]:
    return [
        ((source, result), float(counts[name]))
        for source, result, name in (
            ("pod", "ok", "pages"),
            ("pod", "failed", "pages_failed"),
            ("prometheus", "ok", "queries"),
            ("prometheus", "failed", "queries_failed"),
        )
    ]
