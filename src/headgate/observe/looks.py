"""What all looks at engines share: their turns, their bounds, and the count of what they came to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

from headgate.loop_turns import Turns
from headgate.observe.fetch import LargeAnswers
from headgate.observe.pace import Pace
from headgate.observe.process import Process
from headgate.observe.settings import Settings

MAX_AT_ONCE = 64
"""Looks under way at a time."""

Result = Literal["read", "absent", "failed"]
"""`absent`: there is no page, or none of the engine that is said to run there."""


class Looks:
    """Of one process."""

    def __init__(self, settings: Settings, process: Process) -> None:
        self.now = process.clock
        self.rng = process.rng
        self.slots = asyncio.Semaphore(MAX_AT_ONCE)
        self.reading = asyncio.Lock()
        """Of what has come: it takes a while for what a hostile engine sends."""
        self.turns = Turns(process.loop)
        """In which connections are read on that bring much."""
        self.large = LargeAnswers()
        """Pages and lists that are held at a time."""
        self.pages: Counter[Result] = Counter({"read": 0, "absent": 0, "failed": 0})
        self.malformed_families = 0
        self.restarts = 0
        self._turn_at = 0.0
        """When the next look may begin."""
        self.use(settings, 0)

    def use(self, settings: Settings, engines: int) -> None:
        """Takes up the settings, and how many engines are looked at."""
        # Each process looks for itself, in its share of the turns and of the engines' time.
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
        """Seconds until the next look may begin, which is the caller's then: not all begin at once."""
        now = self.now()
        turn_at = max(self._turn_at, now)
        self._turn_at = turn_at + self._turn_s
        return turn_at - now
