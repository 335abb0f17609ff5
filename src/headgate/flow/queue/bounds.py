"""Queue limits: as configured, or this process's part of them if several processes share the queue."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headgate.flow.queue.settings import FlowSettings
from headgate.flow.sharing import Part, PoolShare, first_part
from headgate.flow.sharing.reports import NO_BOUND


class Bounds:
    """Limits of one queue; `number`, from 0, identifies this process among `processes`."""

    def __init__(self, settings: FlowSettings, processes: int = 1, number: int = 0) -> None:
        self._settings = settings
        self._processes = processes
        self._number = number
        self.all = self._first(self.set_for_all())
        """Limit over all bands."""
        self._bands: Mapping[int, Part] = {}
        self.turn = 0
        """Turn of the last share applied."""

    def set_for_all(self) -> Part:
        """The limit of all processes together."""
        return _part(self._settings.max_requests, self._settings.max_bytes)

    def set_for(self, priority: int) -> Part:
        """The limit of a priority's band, for all processes together."""
        band = self._settings.band_of(priority)
        return _part(band.max_requests, band.max_bytes)

    def of(self, priority: int) -> Part:
        """This process's limit for a priority's band; divided equally until a share says otherwise."""
        told = self._bands.get(priority)
        return told if told is not None else self._first(self.set_for(priority))

    def take(self, share: PoolShare) -> None:
        """Apply a share."""
        self.turn = share.turn
        self.all = share.all
        self._bands = share.bands

    def parts(self) -> tuple[Part, Mapping[int, Part]]:
        """This process's limits: over all bands, and per band that a share contained."""
        return self.all, self._bands

    def changed(self, settings: FlowSettings) -> Bounds:
        """Limits for other settings, before any share."""
        bounds = Bounds(settings, self._processes, self._number)
        bounds.turn = self.turn
        return bounds

    def while_starting(self) -> Bounds:
        """Limits for requests that wait for the start of the pool: each process has an equal part."""
        bounds = self.changed(self._settings.while_starting())
        bounds.all = _lower(bounds.all, self.all)
        bounds._bands = self._bands
        return bounds

    def _first(self, whole: Part) -> Part:
        return Part(
            first_part(whole.requests, self._processes, self._number),
            first_part(whole.bytes, self._processes, self._number),
        )


def _part(requests: int, size: int) -> Part:
    """Limits from settings, in which 0 means no limit."""
    return Part(requests or NO_BOUND, size or NO_BOUND)


def _lower(one: Part, other: Part) -> Part:
    """The lower limits of two."""
    return Part(
        min((one.requests, other.requests), key=_as_number), min((one.bytes, other.bytes), key=_as_number)
    )


def _as_number(limit: int) -> float:
    return math.inf if limit == NO_BOUND else limit
