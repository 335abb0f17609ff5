"""Who has to make room for a request where the queue is full.

The total is checked first, bytes before requests, then the request's own band. Where the total is met, the
lowest bands give way, the newest request first: sheddable ones before all others, and none that is as
important as the request that comes. Where only requests of its own band are left, the flow of it that has the
most waiting gives way to one that has less: one tenant can not keep the others out by filling the queue.
(McKenney, "Stochastic fairness queueing", INFOCOM 1990, takes from the longest queue for the same reason.)
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.flow.queue.band import Band
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.waiting import Waiting


class Full(Exception):  # noqa: N818 - an answer, and no fault
    """There is no place, and nobody to take one from."""


def make_place(
    waiting: Waiting, band: Band, lower: Sequence[Band], settings: FlowSettings, requests: int, size: int
) -> list[Waiting]:
    """Who is to go so that there is a place in `band`; nobody, where there is one.

    `lower` are the bands below it, the lowest first; `requests` and `size` what waits in all bands. Raises
    Full with the bound that is met.
    """
    gone = _from_lower(waiting, lower, settings, requests, size)
    if gone is None:
        longest = _from_longest(waiting, band)
        excess = _excess(waiting, settings.max_requests, settings.max_bytes, requests, size)
        if longest is None or excess[1] > longest.size:
            kind = "bytes" if excess[1] > 0 else "requests"
            bound = settings.max_bytes if excess[1] > 0 else settings.max_requests
            raise Full(f"its queue is full: {bound} {kind}, none of them less important")
        gone = [longest]
    limits = band.settings
    excess = _excess(waiting, limits.max_requests, limits.max_bytes, len(band), band.bytes)
    if max(excess) > 0 and not (gone and gone[0] in band.members):
        longest = _from_longest(waiting, band)
        if longest is None or excess[1] > longest.size:
            kind = "bytes" if excess[1] > 0 else "requests"
            bound = limits.max_bytes if excess[1] > 0 else limits.max_requests
            raise Full(f"its queue is full: {bound} {kind} of priority {band.priority}")
        gone.append(longest)
    return gone


def _excess(waiting: Waiting, most: int, most_bytes: int, requests: int, size: int) -> tuple[int, int]:
    """How many requests and bytes too many there would be; 0 or less where they fit."""
    return (requests + 1 - most if most else 0, size + waiting.size - most_bytes if most_bytes else 0)


def _from_lower(
    waiting: Waiting, lower: Sequence[Band], settings: FlowSettings, requests: int, size: int
) -> list[Waiting] | None:
    """The newest of the lowest bands, as many as it takes; None if all of them are not enough."""
    too_many, too_large = _excess(waiting, settings.max_requests, settings.max_bytes, requests, size)
    if too_many > sum(map(len, lower)) or too_large > sum(band.bytes for band in lower):
        return None
    gone: list[Waiting] = []
    for band in lower:
        for newest in reversed(band.members):
            if too_many <= 0 and too_large <= 0:
                return gone
            gone.append(newest)
            too_many -= 1
            too_large -= newest.size
    return gone


def _from_longest(waiting: Waiting, band: Band) -> Waiting | None:
    """The newest of the flow that has most waiting, if it has more than that of the request would have."""
    if not band.members or not band.fairness.knows_flows:
        return None
    own, longest = band.flow_of(waiting.flow), band.longest
    if longest is own or len(longest) <= (len(own) if own is not None else 0) + 1:
        return None
    return longest.newest
