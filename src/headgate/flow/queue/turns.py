"""Picks the band whose turn it is: the highest, except for requests that waited too long and bands with a
floor."""

from __future__ import annotations

import math

from headgate.flow.capacity import Capacity
from headgate.flow.queue.band import Band
from headgate.flow.queue.bands import Bands
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.waiting import Waiting


class Turns:
    """Without a floor and an age, bands are served strictly in order: none while a higher one has requests.

    If queueing is off, the remaining requests go in the same order, whatever the capacity.
    """

    def __init__(self, settings: FlowSettings, bands: Bands, capacity: Capacity) -> None:
        self._bands = bands
        self._capacity = capacity
        self.goes_by_capacity = settings.is_on
        """Whether requests go only if there is capacity."""
        is_special = settings.evicts_running or settings.sessions.grace_s or capacity.is_paced
        self.decides_alone = settings.is_on and not is_special
        """Whether only capacity and turns decide what is sent."""
        self.has_floor = settings.floor_share > 0.0
        """Whether `took` must be called for each request."""
        self._floor_share = settings.floor_share
        self._promote_after_s = settings.promote_after_s
        self._is_strict = not settings.floor_share and settings.promote_after_s == math.inf

    def is_first(self, band: Band) -> bool:
        """Whether a new request in this band precedes all queued ones."""
        return self._is_strict and band.priority > self._bands.top().priority

    def next(self, now: float) -> tuple[Band, Waiting] | None:
        """The next request, if there is capacity for it. At least one must be queued."""
        top = self._bands.top()
        if self.goes_by_capacity and not self._capacity.has_room(top.priority, now):
            return None
        if not self._is_strict:
            turn = self._aged(now) or self._owed(top, now)
            if turn is not None:
                return turn
        if top.fairness.pauses and top.fairness.ready_at(now) > now:
            return None
        return top, top.head(now)

    def took(self, sent: Band, work: int, now: float) -> None:
        """Record that a band sends `work` tokens: with a floor of f, each other band gets a credit of f / (1
        - f) per token, a share of f. A floor is at most an equal part; otherwise the floors of the lower
        bands would leave the highest nothing.

        A band that cannot use its credit, for lack of capacity or because others have waited too long, does
        not accumulate it: among n bands, none has more than n times the larger of its next request and the
        one sent. So with requests of at most L tokens, no credit exceeds n * L, which bounds how many tokens
        a band sends before all others. Bands with capacity always get their full floor.
        """
        sent.credit = max(sent.credit - work, 0.0)
        others = [band for band in self._bands.waiting() if band is not sent]
        if others:
            share = min(self._floor_share, 1.0 / (len(others) + 1))
            for band in others:
                most = (len(others) + 1) * max(work, band.head(now).work)
                if band.credit < most:
                    band.credit = min(band.credit + work * share / (1.0 - share), most)

    def _aged(self, now: float) -> tuple[Band, Waiting] | None:
        """The oldest request of all, if it has waited too long."""
        band = min(self._bands.waiting(), key=lambda each: each.oldest.arrived)
        if now - band.oldest.arrived < self._promote_after_s:
            return None
        return band, band.oldest

    def _owed(self, top: Band, now: float) -> tuple[Band, Waiting] | None:
        """Of the lower bands whose credit covers their next request, the one with the most credit."""
        best: tuple[Band, Waiting] | None = None
        for band in self._bands.waiting():
            if band is top or not band.credit or (best is not None and band.credit <= best[0].credit):
                continue
            head = band.head(now)
            if band.credit >= head.work and self._capacity.has_room(band.priority, now):
                best = band, head
        return best
