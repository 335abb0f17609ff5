"""How many requests an engine can be given, as far as its own figures say.

The ledger cannot see when a prompt is prefilled whose answer is not streamed, and its rates may be those of
other prompts. What the engine says of itself is better evidence. While nothing waits in it, it could take
more, whatever the ledger expects: so it is given more with each such reading, in steps that double. Where
requests wait in every reading of a second, and it works on no more of them than before, as many as it works
on are enough, and some ahead: what is sent beyond that waits there, where nothing can go before it any more.

The least that waited counts, as in CoDel: what waits for a moment is a burst, and what never goes is a queue.
The bound is never what an engine was seen to work on alone, which may be all that it was given.
"""

from __future__ import annotations

import math

from headgate.fleet import EndpointState
from headgate.fleet.reading import EngineReading

FULL_CACHE = 0.9
FULL_BATCH = 0.95
"""A batch is full where so large a share of the most that ran is always running, while others wait."""
MIN_AHEAD, AHEAD_SHARE = 2, 1 / 32
"""So many may wait in the engine, so that it has one to begin with when others end: the next one from here
takes a moment. In most steps one in hundreds ends."""
AHEAD_S = 0.5
"""And so many as end in this time, unless its cache is full: an engine that finds few to begin with has steps
that are hardly filled."""
MORE_REQUESTS, MORE_TOKENS = 32, 2048
"""What an engine in which nothing waits is given more, whichever is less: prompts for about one step."""
MORE_SHARE = 1 / 4
"""Where it has shown a bound, it is given so much more than it had: that nothing waited may be chance."""
MAX_DOUBLINGS = 8
USED_SHARE = 0.75
"""It keeps up with what it may be given if it was given so much of that."""
GROWTH = 1.05
"""An engine that works on so many times as many as before is still taking up what waits."""
WINDOW_S = 0.9
"""A little less than the time between two readings of an engine that is not read more often."""


class Window:
    """Readings of a second, of our requests: how many the engine had, worked on, and kept waiting."""

    __slots__ = ("_ended", "began_at", "least_working", "most", "waiting", "working")

    def __init__(self, at: float = -math.inf, ended: int = 0) -> None:
        self.began_at = at
        self._ended = ended
        self.most = self.working = 0.0
        self.least_working = self.waiting = math.inf
        """The least that waited, as of the others the most."""

    def see(self, working: float, waiting: float) -> None:
        """Takes a reading."""
        self.most = max(self.most, working + waiting)
        self.working = max(self.working, working)
        self.least_working = min(self.least_working, working)
        self.waiting = min(self.waiting, waiting)

    def per_s(self, at: float, ended: int) -> float:
        """How many ended in a second of it, if it ends now."""
        return (ended - self._ended) / (at - self.began_at)


class Slots:
    """Of one endpoint. Follows its readings; between them the ledger tells."""

    __slots__ = (
        "_ahead",
        "_before",
        "_doublings",
        "_load",
        "_others_waiting",
        "_per_s",
        "_read_at",
        "_window",
        "_without_reading",
        "bound",
        "evident",
        "evident_tokens",
        "reading",
    )

    def __init__(self, load: EndpointState, without_reading: int) -> None:
        self._load = load
        self._without_reading = without_reading
        self._read_at = -math.inf
        self._window = self._before = Window()
        self._per_s = 0.0
        """Requests that ended in a second of the last window."""
        self._doublings = 0
        self.reading: EngineReading | None = None
        """The last that was followed: where the load has another, `follow` is due."""
        self.bound = float(without_reading)
        """Requests that the endpoint may have in any case; infinite as long as it has shown no bound. An
        engine that shows nothing may have `without_reading`, or fewer where it has shown that before."""
        self.evident = float(without_reading)
        """Requests that it may have whatever the ledger expects of prompts whose prefill is not seen."""
        self.evident_tokens = math.inf
        """Tokens of such prompts that it may have."""
        self._others_waiting = 0
        self._ahead = float(MIN_AHEAD)

    def follow(self) -> None:
        """The engine has said something of itself, or says nothing any more."""
        reading = self.reading = self._load.reading
        if reading is None or reading.waiting is None:
            self.bound = self.evident = min(self.bound, self._without_reading)
            self.evident_tokens = math.inf
            self._read_at = -math.inf
            self._window = Window()
        elif reading.at > self._read_at:
            if self._read_at == -math.inf and self.bound == self._without_reading:
                self.bound = math.inf
            self._read_at = reading.at
            self._learn(reading, reading.waiting, reading.running or 0)

    def makes_wait(self) -> bool:
        """Whether more requests wait in the engine than it needs ahead, whoever sent them: of ours, those of
        the last reading that may still be without a first token."""
        load, reading = self._load, self.reading
        if reading is None or reading.waiting is None:
            return False
        still = self._others_waiting + load.requests - load.decoding
        return min(reading.waiting, still) > self._ahead

    def _learn(self, reading: EngineReading, waiting: int, running: int) -> None:
        load = self._load
        requests = load.requests_at_reading
        self._others_waiting = min(waiting, max(waiting + running - requests, 0))
        self._ahead = max(MIN_AHEAD, running * AHEAD_SHARE)
        # Of all that the engine has, as many of ours wait as of others', such as another worker's.
        waits = waiting * min(requests / (running + waiting), 1.0) if waiting else 0.0
        window, before = self._window, self._before
        window.see(requests - waits, waits)
        begins = reading.at - window.began_at >= WINDOW_S
        has_ended = begins and window.began_at > -math.inf
        if begins:
            ended = load.started - load.requests
            self._before, self._per_s = window, window.per_s(reading.at, ended)
            self._window = Window(reading.at, ended)
            self._window.see(requests - waits, waits)
        if not waits:
            self._give_more(requests)
        elif (reading.kv_usage or 0.0) >= FULL_CACHE:
            self._is_full(requests - waits)
        elif has_ended and _has_full_batch(before, window):
            self._is_full(window.working)
        else:
            self._keep_ahead(window, has_ended and window.working <= before.working * GROWTH)

    def _is_full(self, working: float) -> None:
        """It works on so many, and begins another when one of them ends."""
        self._stop_growth()
        self.bound = self.evident = max(working, 1.0) + max(MIN_AHEAD, working * AHEAD_SHARE)

    def _keep_ahead(self, window: Window, is_standing: bool) -> None:
        """Some wait, and it takes up as many as its steps hold."""
        self._stop_growth()
        working = window.working
        ahead = max(MIN_AHEAD, working * AHEAD_SHARE, self._per_s * AHEAD_S)
        if window.waiting <= ahead:
            self.evident = max(working + ahead, window.most)
            self.bound = max(self.bound, self.evident)
        elif is_standing:
            self.bound = self.evident = max(window.most - (window.waiting - ahead) / 2.0, 1.0)
        else:
            self.evident = float(window.most)

    def _stop_growth(self) -> None:
        self._doublings, self.evident_tokens = 0, math.inf

    def _give_more(self, requests: int) -> None:
        """Nothing of ours waits in the engine."""
        tokens = self._load.unseen_tokens
        if requests >= USED_SHARE * self.evident or tokens >= USED_SHARE * self.evident_tokens:
            self._doublings = min(self._doublings + 1, MAX_DOUBLINGS)
        else:
            self._doublings = 0
        most = max(requests, self._window.most)
        more = MORE_REQUESTS if self.bound == math.inf else max(MIN_AHEAD, most * MORE_SHARE)
        self.evident = float(most + more * 2**self._doublings)
        self.evident_tokens = float(tokens + (MORE_TOKENS << self._doublings))
        self.bound = max(self.bound, self.evident)


def _has_full_batch(*windows: Window) -> bool:
    """Whether as many ran all the time while others waited: prefill alone takes up more or fewer."""
    most = max(window.working for window in windows)
    return all(window.waiting and window.least_working >= FULL_BATCH * most for window in windows)
