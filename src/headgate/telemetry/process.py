"""What every process tells of itself: what it is, and what it uses of its machine."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from prometheus_client import ProcessCollector

from headgate.telemetry.build import installed
from headgate.telemetry.line_log import LineHandler
from headgate.telemetry.metrics import Counter, Gauge, Registry


def add_process_metrics(registry: Registry) -> None:
    """Adds `headgate_build_info`, and on Linux memory, CPU time, descriptors and start time (`process_*`)."""
    build = installed()
    info = Gauge(
        "headgate_build_info",
        "Always 1; the labels say what runs; form is compiled or pure (plain Python).",
        ("version", "python", "form"),
        over="max",
    )
    info.labels(build.version, build.python, build.form).value = 1
    registry.add(info)
    registry.include(ProcessCollector(registry=None))
    add_log_metrics(registry)


def add_log_metrics(registry: Registry) -> None:
    """Adds `headgate_log_lines`, of the log on standard error."""
    registry.add(
        Counter(
            "headgate_log_lines",
            "Lines of the log on standard error; result is written or dropped (nobody reads them fast "
            "enough, or the disk is full).",
            ("result",),
            _log_lines,
        )
    )


def _log_lines() -> Iterable[tuple[tuple[str, ...], float]]:
    counts = [
        each.lines.statistics() for each in logging.getLogger().handlers if isinstance(each, LineHandler)
    ]
    for result in ("written", "dropped"):
        yield (result,), sum(each[f"lines_{result}"] for each in counts)
