"""The state of a queue for display: bands, flows, and why requests wait."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.flow.capacity import Capacity
from headgate.flow.queue.band import Band

MAX_FLOWS, MAX_REQUESTS = 100, 20


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One flow of a band."""

    name: str
    requests: int
    bytes: int
    work: int
    weight: float
    oldest_s: float
    """How long its oldest request has waited."""
    standing: str
    """Its position by the band's fairness policy, in words."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queued request."""

    flow: str
    work: int
    waits_s: float
    why: str


class BandRow(msgspec.Struct, frozen=True, kw_only=True):
    """All queued requests of one priority."""

    priority: int
    fairness: str
    ordering: str
    requests: int
    bytes: int
    work: int
    max_requests: int
    max_bytes: int
    oldest_s: float
    has_room: bool
    """Whether the pool has capacity for one of them."""
    credit: float
    """Tokens that it may take before higher bands, by its floor."""
    flows: Sequence[FlowRow]
    """The flows with the most requests."""
    first: Sequence[RequestRow]
    """The oldest requests."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment; bands in order of priority, highest first."""

    requests: int
    bytes: int
    work: int
    saturation: float
    drain_per_s: float
    """Tokens of work that leave it per second."""
    is_without_endpoints: bool
    bands: Sequence[BandRow]


def view(bands: Sequence[Band], capacity: Capacity, drain_per_s: float, now: float) -> QueueView:
    """The state of a queue with these bands, for a pool with this capacity."""
    rows = []
    why = ""
    for band in bands:
        has_room = capacity.has_room(band.priority, now)
        why = why or ("" if has_room else _why_no_capacity(capacity, band.priority, now))
        rows.append(band_row(band, has_room, why or "it is next", now))
        if band.members and not why:
            why = f"requests of priority {band.priority} go first"
    return QueueView(
        requests=sum(map(len, bands)),
        bytes=sum(band.bytes for band in bands),
        work=sum(band.work for band in bands),
        saturation=capacity.saturation(now),
        drain_per_s=drain_per_s,
        is_without_endpoints=capacity.is_empty(),
        bands=rows,
    )


def _why_no_capacity(capacity: Capacity, priority: int, now: float) -> str:
    if capacity.is_empty():
        return "the pool has no endpoint"
    return f"the pool has no capacity: {capacity.why_full(priority, now)}"


def band_row(band: Band, has_room: bool, why: str, now: float) -> BandRow:
    """`why`: what holds back the first request of the band."""
    flows = sorted(band.flows.values(), key=len, reverse=True)[:MAX_FLOWS]
    first = [waiting for waiting, _ in zip(band.members, range(MAX_REQUESTS), strict=False)]
    head = band.head(now) if band.members else None
    return BandRow(
        priority=band.priority,
        fairness=band.settings.fairness,
        ordering=band.settings.ordering,
        requests=len(band),
        bytes=band.bytes,
        work=band.work,
        max_requests=band.settings.max_requests,
        max_bytes=band.settings.max_bytes,
        oldest_s=now - band.oldest.arrived if band.members else 0.0,
        has_room=has_room,
        credit=band.credit,
        flows=[
            FlowRow(
                name=flow.name,
                requests=len(flow),
                bytes=flow.bytes,
                work=sum(waiting.work for waiting in flow.members),
                weight=flow.weight,
                oldest_s=now - next(iter(flow.members)).arrived,
                standing=band.fairness.standing(flow, now),
            )
            for flow in flows
        ],
        first=[
            RequestRow(
                flow=waiting.flow,
                work=waiting.work,
                waits_s=now - waiting.arrived,
                why=why if waiting is head else "others of its band are ahead of it",
            )
            for waiting in first
        ],
    )
