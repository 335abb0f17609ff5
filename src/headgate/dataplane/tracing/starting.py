"""Starts the tracing of a process, and its metrics."""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate import telemetry
from headgate.dataplane.tracing.tracer import ERROR, OVER_LIMIT, SAMPLED, SLOW, Tracer
from headgate.telemetry.tracing import SpanSender, resolve
from headgate.telemetry.tracing.span import ExportSettings

if TYPE_CHECKING:
    from headgate.dataplane.settings import Tracing

log = logging.getLogger(__name__)

_Samples = list[tuple[tuple[str, ...], float]]


class RunningTracer:
    """A tracer, and the process that exports its spans."""

    def __init__(self, tracer: Tracer, sender: SpanSender) -> None:
        self.tracer = tracer
        self.sender = sender

    def close(self) -> None:
        """Let the spans so far be exported; blocks for at most two seconds."""
        self.sender.close()


def start(
    settings: Tracing, service: str, kind: int, environment: Mapping[str, str] = os.environ
) -> RunningTracer | None:
    """None if no traces are exported. `service`: the name of the service, unless the environment has one."""
    export = resolve(settings.endpoint, settings.sample_ratio, environment)
    if export is None:
        return None
    for warning in export.warnings:
        log.warning("%s", warning)
    log.info(
        "traces go to %s: %g%% of requests, and those that fail or are slow",
        export.shown,
        export.ratio * 100,
    )
    instance = f"{socket.gethostname()}-{os.getpid()}"
    sender = SpanSender(ExportSettings(export.endpoint, service, telemetry.installed().version, instance))
    rng = random.Random()  # noqa: S311 - ids are unique, not secret
    return RunningTracer(Tracer(settings, export, rng, sender.send, time.time, kind=kind), sender)


def add_metrics(registry: telemetry.Registry, running: RunningTracer | None, prefix: str) -> None:
    """Add the counts of traces and spans; without tracing they have no samples."""

    def traces() -> _Samples:
        return _samples(running.tracer.counts, (SAMPLED, ERROR, SLOW, OVER_LIMIT)) if running else []

    def spans() -> _Samples:
        return _samples(running.sender.statistics(), ("exported", "failed", "dropped")) if running else []

    registry.add(
        telemetry.Counter(
            f"{prefix}_traces",
            "Requests whose spans are exported, by the reason: sampled, error or slow; over_limit were not, "
            "because of tracing.max_kept_per_s.",
            ("reason",),
            traces,
        ),
        telemetry.Counter(
            f"{prefix}_trace_spans",
            "Spans by what became of them: exported, failed (the collector did not accept them, or not in "
            "time), or dropped (more than could wait).",
            ("result",),
            spans,
        ),
    )


def _samples(counts: Mapping[str, int], names: tuple[str, ...]) -> _Samples:
    return [((name,), counts.get(name, 0)) for name in names]
