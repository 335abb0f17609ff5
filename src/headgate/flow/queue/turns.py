"""Whose turn it is among the bands: the highest, but for those that have waited too long or have a floor."""

from __future__ import annotations

import math

from headgate.flow.capacity import Capacity
from headgate.flow.queue.band import Band
from headgate.flow.queue.bands import Bands
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.waiting import Waiting


class Turns:
    """Without a floor and an age, bands are served strictly in their order: none while a higher one waits.

    Where nothing is to wait, whoever still does goes in the same order, without asking for room.
    """

    def __init__(self, settings: FlowSettings, bands: Bands, capacity: Capacity) -> None:
        self._bands = bands
        self._capacity = capacity
        self._is_on = settings.is_on
        self.has_floor = settings.floor_share > 0.0
        """Whether it has to be told what goes."""
        self._floor_share = settings.floor_share
        self._promote_after_s = settings.promote_after_s
        self._is_strict = not settings.floor_share and settings.promote_after_s == math.inf

    def is_first(self, band: Band) -> bool:
        """Whether a request that comes now to this band goes before all those that wait."""
        return self._is_strict and band.priority > self._bands.top().priority

    def next(self, now: float) -> tuple[Band, Waiting] | None:
        """Who goes, if there is room for it. There is somebody who waits."""
        top = self._bands.top()
        if self._is_on and not self._capacity.has_room(top.priority, now):
            return None
        if not self._is_strict:
            turn = self._aged(now) or self._owed(top, now)
            if turn is not None:
                return turn
        if top.fairness.pauses and top.fairness.ready_at(now) > now:
            return None
        return top, top.head(now)

    def took(self, sent: Band, work: int, now: float) -> None:
        """So many tokens of a band go, and there is a floor: if it is f, others get f / (1 - f) for each, a
        share of f. No floor is more than an equal part, or those of the lower bands would leave the highest
        nothing.

        A band that cannot use its credit, as it finds no room or others have waited too long, does not save
        up: of n bands that wait, none has more than n times the larger of its next request and the one that
        goes. So with requests of L tokens at most, no credit is ever above n * L, and the band that has it
        is before all others for so many tokens at most. Two bands that have room are never cut short.
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
        """The oldest of all, if it has waited too long."""
        band = min(self._bands.waiting(), key=lambda each: each.oldest.arrived)
        if now - band.oldest.arrived < self._promote_after_s:
            return None
        return band, band.oldest

    def _owed(self, top: Band, now: float) -> tuple[Band, Waiting] | None:
        """Of the bands below the top whose credit is enough for their next, the one with the most."""
        best: tuple[Band, Waiting] | None = None
        for band in self._bands.waiting():
            if band is top or not band.credit or (best is not None and band.credit <= best[0].credit):
                continue
            head = band.head(now)
            if band.credit >= head.work and self._capacity.has_room(band.priority, now):
                best = band, head
        return best
