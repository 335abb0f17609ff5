"""When the list of an endpoint's models is read."""

from __future__ import annotations

import math

INTERVAL_S = 30.0
"""Interval between two reads of the list, which changes when an adapter is loaded."""
SOONEST_S = 1.0
"""The shortest such interval, if a new list is wanted."""
STALE_S = 3 * INTERVAL_S


class ModelListSchedule:
    """When the list was last requested, and when it is due."""

    def __init__(self) -> None:
        self._requested_at = -math.inf
        self._due_at = -math.inf

    def is_due(self, now: float) -> bool:
        return now >= self._due_at

    def request(self, now: float) -> None:
        """The list is requested now."""
        self._requested_at, self._due_at = now, now + INTERVAL_S

    def want_soon(self) -> None:
        """A new list is wanted, unless it was just requested."""
        self._due_at = min(self._due_at, self._requested_at + SOONEST_S)

    def want_at(self, at: float) -> None:
        self._due_at = at
