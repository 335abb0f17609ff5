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

    __slots__ = ("_load", "_most_running", "_without_reading", "_working", "bound", "others_wait", "reading")

    def __init__(self, load: EndpointLoad, without_reading: int) -> None:
        self._load = load
        self._without_reading = without_reading
        self._most_running = 0
        self._working = math.inf
        self.reading: EngineReading | None = None
        """The last that was followed: where the load has another, `follow` is due."""
        self.bound: float = without_reading
        """Requests that the endpoint may have; infinite as long as it has shown no bound. An engine that
        shows nothing may have as many as it was seen to work on, or `without_reading`."""
        self.others_wait = False
        """Whether requests that are not ours wait in the engine, more than it needs ahead."""

    def follow(self) -> None:
        """The engine has said something of itself, or says nothing any more."""
        load = self._load
        reading = self.reading = load.reading
        is_told = reading is not None and reading.waiting is not None
        self.others_wait = False
        if is_told:
            self._learn()
        if self._working < math.inf:
            self.bound = self._working + max(LEAST_AHEAD, self._working * AHEAD_SHARE)
        else:
            self.bound = math.inf if is_told else self._without_reading

    def _learn(self) -> None:
        load, reading = self._load, self.reading
        assert reading is not None
        waiting, running = reading.waiting or 0, reading.running or 0
        self.others_wait = waiting - load.requests_at_reading > LEAST_AHEAD
        is_full = (reading.kv_usage or 0.0) >= FULL_CACHE
        if waiting and (is_full or running >= AS_LARGE_AS_EVER * self._most_running):
            # Of all that the engine has, as many of ours wait as of others', such as another worker's.
            ours = load.requests_at_reading / (running + waiting)
            self._working = max(load.requests_at_reading - waiting * min(ours, 1.0), 1)
        elif not waiting and load.requests_at_reading >= self._working:
            self._working = math.inf  # more than that, and none of them waits
        self._most_running = max(self._most_running, running)
