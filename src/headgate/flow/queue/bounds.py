"""How much may wait: what is set, or of several processes with the same queue, the part of this one."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.flow.queue.settings import FlowSettings
from headgate.flow.sharing import Part, PoolShare, first_part
from headgate.flow.sharing.reports import NO_BOUND


class Bounds:
    """Of one queue; `number`, from 0, is which of so many processes this is."""

    def __init__(self, settings: FlowSettings, processes: int = 1, number: int = 0) -> None:
        self._settings = settings
        self._processes = processes
        self._number = number
        self.all = self._first(self.set_for_all())
        """Of all bands."""
        self._bands: Mapping[int, Part] = {}
        self.turn = 0
        """Of what was told last."""

    def set_for_all(self) -> Part:
        """What all processes may hold together."""
        return _part(self._settings.max_requests, self._settings.max_bytes)

    def set_for(self, priority: int) -> Part:
        """The same of the band of a priority."""
        band = self._settings.band_of(priority)
        return _part(band.max_requests, band.max_bytes)

    def of(self, priority: int) -> Part:
        """Of the band of a priority; one that nobody has told of yet is divided equally."""
        told = self._bands.get(priority)
        return told if told is not None else self._first(self.set_for(priority))

    def take(self, share: PoolShare) -> None:
        """Goes by what was told; a bound that is not set is none."""
        self.turn = share.turn
        self.all = share.all
        self._bands = share.bands

    def parts(self) -> tuple[Part, Mapping[int, Part]]:
        """What this one goes by: of all bands, and of those that it was told of."""
        return self.all, self._bands

    def changed(self, settings: FlowSettings) -> Bounds:
        """Those of other settings, of which nothing was told yet."""
        bounds = Bounds(settings, self._processes, self._number)
        bounds.turn = self.turn
        return bounds

    def _first(self, whole: Part) -> Part:
        return Part(
            first_part(whole.requests, self._processes, self._number),
            first_part(whole.bytes, self._processes, self._number),
        )


def _part(requests: int, size: int) -> Part:
    """Of settings, in which 0 is no bound."""
    return Part(requests or NO_BOUND, size or NO_BOUND)
