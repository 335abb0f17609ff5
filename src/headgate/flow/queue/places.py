"""Decides which requests to drop for a new one when the queue is full.

The total is checked first, bytes before requests, then the request's own band. If the total is exceeded, the
lowest bands lose requests, newest first: sheddable ones before all others, and none as important as the new
request. If only requests of its own band are left, the flow with the most queued requests loses one to a flow
with fewer: one tenant cannot keep the others out by filling the queue. (McKenney, "Stochastic fairness
queueing", INFOCOM 1990, drops from the longest queue for the same reason.)
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.flow.queue.band import Band
from headgate.flow.queue.bounds import Bounds
from headgate.flow.queue.waiting import Waiting
from headgate.flow.sharing import Part
from headgate.flow.sharing.reports import NO_BOUND


class Full(Exception):  # noqa: N818 - a result, not an error
    """No capacity, and nothing to drop."""


def make_place(
    waiting: Waiting, band: Band, lower: Sequence[Band], bounds: Bounds, requests: int, size: int
) -> list[Waiting]:
    """The requests to drop so that a new one fits into `band`; empty if it fits already.

    `lower`: the bands below it, lowest first. `requests` and `size`: totals over all bands. Raises Full with
    the limit that is exceeded.
    """
    gone = _from_lower(waiting, lower, bounds.all, requests, size)
    if gone is None:
        longest = _from_longest(waiting, band)
        excess = _excess(waiting, bounds.all, requests, size)
        if longest is None or excess[1] > longest.size:
            what = _what(bounds.set_for_all(), bounds.all, in_bytes=excess[1] > 0)
            raise Full(f"its queue is full: {what}, none of them less important")
        gone = [longest]
    own = bounds.of(band.priority)
    excess = _excess(waiting, own, len(band), band.bytes)
    if max(excess) > 0 and not (gone and gone[0] in band.members):
        longest = _from_longest(waiting, band)
        if longest is None or excess[1] > longest.size:
            what = _what(bounds.set_for(band.priority), own, in_bytes=excess[1] > 0)
            raise Full(f"its queue is full: {what} of priority {band.priority}")
        gone.append(longest)
    return gone


def _excess(waiting: Waiting, part: Part, requests: int, size: int) -> tuple[int, int]:
    """Requests and bytes in excess with the new request; 0 or less if it fits."""
    return (
        requests + 1 - part.requests if part.requests != NO_BOUND else 0,
        size + waiting.size - part.bytes if part.bytes != NO_BOUND else 0,
    )


def _what(whole: Part, part: Part, *, in_bytes: bool) -> str:
    """The exceeded limit, with this process's part if that is less."""
    bound, own = (whole.bytes, part.bytes) if in_bytes else (whole.requests, part.requests)
    told = f"{bound} {'bytes' if in_bytes else 'requests'}"
    return told if own == bound else f"{told}, of which this worker may have {own},"


def _from_lower(
    waiting: Waiting, lower: Sequence[Band], part: Part, requests: int, size: int
) -> list[Waiting] | None:
    """The newest requests of the lowest bands, as many as needed; None if all of them are not enough."""
    too_many, too_large = _excess(waiting, part, requests, size)
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
    """The newest request of the longest flow, if it is longer than the request's own flow would be."""
    if not band.members or not band.fairness.knows_flows:
        return None
    own, longest = band.flow_of(waiting.flow), band.longest
    if longest is own or len(longest) <= (len(own) if own is not None else 0) + 1:
        return None
    return longest.newest
