"""A replay over time, in equal windows."""

from __future__ import annotations

import math
from typing import NamedTuple

from headgate.simulator.autoscaling.run import Replay


class Window(NamedTuple):
    """Means of one window."""

    begins_s: float
    seconds: float
    desired: float
    replicas: float
    """Those that start, serve or drain."""
    ready: float
    running: float
    waiting: float
    arrivals_per_s: float
    attainment: float | None
    """Share of the requests that arrived within the window that were in time; None without any."""


def windows(run: Replay, count: int) -> list[Window]:
    """At most so many windows, of whole seconds."""
    if not run.moments:
        return []
    seconds = max(1, math.ceil(len(run.moments) / count))
    arrived: dict[int, list[int]] = {}
    for work in run.works:
        counts = arrived.setdefault(int(work.at_s // seconds), [0, 0])
        counts[0] += 1
        counts[1] += run.is_met(work)
    found = []
    for begins in range(0, len(run.moments), seconds):
        moments = run.moments[begins : begins + seconds]
        size = len(moments)
        requests, met = arrived.get(begins // seconds, (0, 0))
        found.append(
            Window(
                float(begins),
                float(size),
                sum(each.desired for each in moments) / size,
                sum(each.ready + each.starting + each.draining for each in moments) / size,
                sum(each.ready for each in moments) / size,
                sum(each.running for each in moments) / size,
                sum(each.waiting for each in moments) / size,
                requests / size,
                met / requests if requests else None,
            )
        )
    return found
