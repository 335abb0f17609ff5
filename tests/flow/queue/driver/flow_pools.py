"""A pool whose room is told."""

import math


class Room:
    """A pool with so many free slots; each request that goes takes one."""

    is_paced = True

    def __init__(self, slots: float = 0) -> None:
        self.slots = slots
        self.no_endpoints = False
        self.saturated = 1.0
        self.closed: set[int] = set()
        """Priorities that find no room."""
        self.ceilings: dict[int, float] = {}
        self.bands: list[int] = []
        self.runs = 0

    def follow(self, loads, phases=None, resting=()):
        pass

    def follow_bands(self, priorities):
        self.bands = list(priorities)

    def has_room(self, priority, now):
        return self.slots > 0 and not self.no_endpoints and priority not in self.closed

    def why_full(self, priority, now):
        return f"its saturation is {self.saturation(now):.2f}"

    def room_at(self, priority, now):
        return math.inf

    def sent(self, now):
        self.slots -= 1
        self.runs += 1

    def saturation(self, now):
        return 0.0 if self.slots > 0 else self.saturated

    def ceiling(self, priority, now):
        return self.ceilings.get(priority, 1.0)

    def in_flight(self):
        return self.runs

    def is_empty(self):
        return self.no_endpoints
