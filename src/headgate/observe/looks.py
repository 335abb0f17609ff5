"""State shared by all reads of engines: turns, limits, and counts of results."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

from headgate.engine_client import LargeResponses
from headgate.loop_turns import Turns
from headgate.observe.pace import Pace
from headgate.observe.process import Process
from headgate.observe.settings import Settings

MAX_AT_ONCE = 64
"""Concurrent reads."""

Result = Literal["read", "absent", "failed"]
"""`absent`: there is no page, or none of the configured engine."""


class Looks:
    """State that all watches of a process share."""

    def __init__(self, settings: Settings, process: Process) -> None:
        self.now = process.clock
        self.rng = process.rng
        self.slots = asyncio.Semaphore(MAX_AT_ONCE)
        self.reading = asyncio.Lock()
        """Held while a response is parsed: that of a hostile engine takes a while."""
        self.turns = Turns(process.loop)
        """Turns in which connections with much data go on reading."""
        self.large = LargeResponses()
        """Pages and lists held at a time."""
        self.pages: Counter[Result] = Counter({"read": 0, "absent": 0, "failed": 0})
        self.malformed_families = 0
        self.restarts = 0
        self._turn_at = 0.0
        """When the next read may begin."""
        self.use(settings, 0)

    def use(self, settings: Settings, engines: int) -> None:
        """Apply the settings and the number of engines."""
        # Each process reads for itself, within its share of the rate and of the engines' time.
        self._turn_s = settings.processes / settings.max_per_s
        self.timeout_s = settings.timeout_s
        self.pace = Pace(
            rest_s=settings.interval_s,
            quick_s=settings.busy_interval_s,
            lookers=settings.processes,
            round_s=engines * self._turn_s,
            old_s=settings.stale_s,
        )

    def take_turn(self) -> float:
        """Reserve the next turn; returns the seconds until it begins, so that reads are spread."""
        now = self.now()
        turn_at = max(self._turn_at, now)
        self._turn_at = turn_at + self._turn_s
        return turn_at - now
