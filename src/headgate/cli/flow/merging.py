"""The queues of all workers of a gateway as one: each worker has its own share of the requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headgate.flow.queue import BandRow, FlowRow, QueueView, RequestRow
from headgate.gateway.queueing.shown import QueueShown

MAX_REQUESTS = 20
"""Shown of each band."""


def merged(queues: Sequence[QueueShown]) -> QueueShown:
    """One queue of several of one pool; there is at least one. Counts are sums, and of what each worker sees
    for itself, such as saturation, the greatest counts."""
    first = queues[0]
    if len(queues) == 1:
        return first
    views = [each.queue for each in queues]
    fullest = max(queues, key=lambda each: each.queue.saturation)
    return QueueShown(
        worker=first.worker,
        is_on=first.is_on,
        endpoints=max(each.endpoints for each in queues),
        in_flight=sum(each.in_flight for each in queues),
        why=fullest.why or next((each.why for each in queues if each.why), ""),
        queue=QueueView(
            requests=sum(view.requests for view in views),
            bytes=sum(view.bytes for view in views),
            work=sum(view.work for view in views),
            saturation=fullest.queue.saturation,
            drain_per_s=sum(view.drain_per_s for view in views),
            is_without_endpoints=any(view.is_without_endpoints for view in views),
            bands=_bands(band for view in views for band in view.bands),
        ),
    )


def _bands(bands: Iterable[BandRow]) -> list[BandRow]:
    """Those of one priority as one, the highest first."""
    by_priority: dict[int, list[BandRow]] = {}
    for band in bands:
        by_priority.setdefault(band.priority, []).append(band)
    return [_band(by_priority[priority]) for priority in sorted(by_priority, reverse=True)]


def _band(parts: list[BandRow]) -> BandRow:
    if len(parts) == 1:
        return parts[0]
    first = sorted((row for part in parts for row in part.first), key=lambda row: -row.waits_s)
    return msgspec.structs.replace(
        parts[0],
        requests=sum(part.requests for part in parts),
        bytes=sum(part.bytes for part in parts),
        work=sum(part.work for part in parts),
        oldest_s=max(part.oldest_s for part in parts),
        has_room=all(part.has_room for part in parts),
        credit=sum(part.credit for part in parts),
        flows=_flows(flow for part in parts for flow in part.flows),
        first=_oldest(first),
    )


def _oldest(rows: list[RequestRow]) -> list[RequestRow]:
    return rows[:MAX_REQUESTS]


def _flows(flows: Iterable[FlowRow]) -> list[FlowRow]:
    """Those of one name as one, the longest first; where it stands, each worker says for itself."""
    by_name: dict[str, list[FlowRow]] = {}
    for flow in flows:
        by_name.setdefault(flow.name, []).append(flow)
    found = [
        msgspec.structs.replace(
            parts[0],
            requests=sum(part.requests for part in parts),
            bytes=sum(part.bytes for part in parts),
            work=sum(part.work for part in parts),
            oldest_s=max(part.oldest_s for part in parts),
            standing="; ".join(dict.fromkeys(part.standing for part in parts if part.standing)),
        )
        for parts in by_name.values()
    ]
    return sorted(found, key=lambda flow: -flow.requests)
