"""What every process tells of itself: what it is, and what it uses of its machine."""

from __future__ import annotations

import platform
from importlib import metadata

from prometheus_client import ProcessCollector

from headgate.telemetry.metrics import Gauge, Registry


def add_process_metrics(registry: Registry) -> None:
    """Adds `headgate_build_info`, and on Linux memory, CPU time, descriptors and start time (`process_*`)."""
    build = Gauge(
        "headgate_build_info", "Always 1; the labels say what runs.", ("version", "python"), over="max"
    )
    build.labels(metadata.version("headgate"), platform.python_version()).value = 1
    registry.add(build)
    registry.include(ProcessCollector(registry=None))
