"""What a queue reports to other processes that share it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from headgate.flow.queue.band import Band
from headgate.flow.queue.bounds import Bounds
from headgate.flow.sharing import Backlog, Charge, Part, PoolReport, Waits

MAX_FLOWS = 64
"""Per band, the flows with the most queued requests."""


def report(
    bands: Sequence[Band],
    bounds: Bounds,
    came: Mapping[int, int],
    charges: Sequence[Charge],
    fullness: float | None,
    room: float,
) -> PoolReport:
    """A report of the whole queue and its limits. `came` is by priority, for which there may be no band.
    `room`: the fraction of the pool's capacity that this process uses."""
    return PoolReport(
        all=_waits(bands, sum(came.values()), bounds.set_for_all(), bounds.all),
        bands={
            priority: _waits([band], came.get(priority, 0), bounds.set_for(priority), bounds.of(priority))
            for band in bands
            for priority in [band.priority]
        },
        backlog=[row for band in bands if band.members for row in _backlog(band)],
        fullness=fullness,
        room=room,
        turn=bounds.turn,
        charges=charges,
    )


def _waits(bands: Sequence[Band], came: int, whole: Part, part: Part) -> Waits:
    return Waits(
        requests=sum(map(len, bands)),
        bytes=sum(band.bytes for band in bands),
        came=came,
        max_requests=whole.requests,
        max_bytes=whole.bytes,
        part_requests=part.requests,
        part_bytes=part.bytes,
    )


def _backlog(band: Band) -> list[Backlog]:
    """Work of each flow, in proportion to its number of requests."""
    flows = heapq.nlargest(MAX_FLOWS, band.flows.values(), key=len)
    each = band.work / len(band)
    return [
        Backlog(priority=band.priority, flow=flow.name, weight=flow.weight, work=round(len(flow) * each))
        for flow in flows
    ]
