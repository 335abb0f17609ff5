"""How many requests an engine works on at once, as far as it has shown.

Engines have a largest batch, and a cache that is full before that with long prompts; neither is told to
anybody. But a reading in which requests wait, while the batch is as large as it was ever seen or the cache is
full, shows how many of ours the engine could work on. What is sent beyond that waits there, where nothing
can go before it any more.
"""

from __future__ import annotations

import math

from headgate.fleet import EndpointLoad
from headgate.fleet.reading import EngineReading

AS_LARGE_AS_EVER = 0.95
FULL_CACHE = 0.9
LEAST_AHEAD, AHEAD_SHARE = 2, 1 / 32
"""So many may wait in the engine, so that it has one to begin with when others end: the next one from here
takes a moment. In most steps one in hundreds ends."""


class Slots:
    """Of one endpoint. Follows its readings; between them the ledger tells."""

    __slots__ = ("_load", "_most_running", "_reading", "_working")

    def __init__(self, load: EndpointLoad) -> None:
        self._load = load
        self._reading: EngineReading | None = None
        self._most_running = 0
        self._working = math.inf

    def most(self, without_reading: int) -> float:
        """Requests that the endpoint may have; infinite as long as it has shown no bound.

        An engine that shows nothing may have as many as it was seen to work on, or `without_reading`.
        """
        load = self._load
        if load.reading is not self._reading:
            self._follow(load)
        if self._working < math.inf:
            return self._working + max(LEAST_AHEAD, self._working * AHEAD_SHARE)
        return math.inf if self._is_told else without_reading

    @property
    def _is_told(self) -> bool:
        return self._reading is not None and self._reading.waiting is not None

    def _follow(self, load: EndpointLoad) -> None:
        reading = self._reading = load.reading
        if reading is None or reading.waiting is None:
            return
        running = reading.running or 0
        is_full = (reading.kv_usage or 0.0) >= FULL_CACHE
        if reading.waiting and (is_full or running >= AS_LARGE_AS_EVER * self._most_running):
            self._working = max(load.requests_at_reading - reading.waiting, 1)
        elif not reading.waiting and load.requests_at_reading >= self._working:
            self._working = math.inf  # more than that, and none of them waits
        self._most_running = max(self._most_running, running)
