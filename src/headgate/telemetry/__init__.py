"""Metrics, logs and traces.

Collects numbers, lines and spans from every room, cheaply enough for the data path, and passes them to
Prometheus, standard output and a collector.
"""

from headgate.telemetry.build import Build, installed
from headgate.telemetry.line_log import LineFormatter, LineHandler, LineLog
from headgate.telemetry.log_clock import LogClock
from headgate.telemetry.metrics import (
    Counter,
    Gauge,
    Histogram,
    LabelValues,
    Registry,
    add_log_metrics,
    add_process_metrics,
)

__all__ = [
    "Build",
    "Counter",
    "Gauge",
    "Histogram",
    "LabelValues",
    "LineFormatter",
    "LineHandler",
    "LineLog",
    "LogClock",
    "Registry",
    "add_log_metrics",
    "add_process_metrics",
    "installed",
]
