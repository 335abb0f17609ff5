"""The bands of a queue, and the band of each priority."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.flow.queue.band import Band
from headgate.flow.queue.settings import FlowSettings

MAX_BANDS = 64
"""Beyond this many priorities, later ones share the existing bands."""


class Bands:
    """Bands are created with the first request of a priority, and never removed, as there are few."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self.go_by_usage = settings.goes_by_usage
        """Whether any of them uses a policy that depends on usage. Asked for each request."""
        self.by_priority: dict[int, Band] = {}
        self.in_order: Sequence[Band] = ()
        """Highest first."""
        self._below: int | None = None
        for priority in settings.bands:
            self._make(priority)

    def __getitem__(self, priority: int) -> Band:
        """The band of a priority, which must exist."""
        return self.by_priority[priority]

    @property
    def priorities(self) -> list[int]:
        return [band.priority for band in self.in_order]

    def top(self) -> Band:
        """The highest band with queued requests; raises LookupError if there is none."""
        for band in self.in_order:
            if band.members:
                return band
        raise LookupError("nobody waits")

    def waiting(self) -> Iterator[Band]:
        """The bands with queued requests, highest first."""
        return (band for band in self.in_order if band.members)

    def of(self, priority: int) -> Band:
        """The band of a priority: its own, or else the next lower one, so that no request is promoted.

        A priority below all bands gets one more band, shared by all such priorities.
        """
        band = self.by_priority.get(priority)
        if band is not None:
            return band
        if not self._settings.only_bands and len(self.by_priority) < MAX_BANDS:
            return self._make(priority)
        for band in self.in_order:
            if band.priority < priority:
                return band
        if self._below is None:
            self._below = self.in_order[-1].priority - 1
            return self._make(self._below)
        return self.by_priority[self._below]

    def _make(self, priority: int) -> Band:
        band = self.by_priority[priority] = Band(priority, self._settings)
        self.in_order = sorted(self.by_priority.values(), key=lambda each: -each.priority)
        return band
