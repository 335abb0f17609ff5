"""Learns from an engine's readings how many requests it can take.

The ledger cannot see when the prompt of an unstreamed response is prefilled, and its rates may come from
other prompts. The engine's own figures are better evidence. While its queue is empty, it could take more,
whatever the ledger predicts: so each such reading raises its limit, in steps that double. If its queue is
never empty within a second, and its batch does not grow, the running requests plus a few ahead are enough:
what is sent beyond that waits in the engine, where more important requests can no longer overtake it.

The least queue length within a second counts, as in CoDel: a short queue is a burst, a standing one is
excess. The limit is never just what the engine was seen to run, which may be all that it was given.
"""

from __future__ import annotations

import math

from headgate.fleet import EndpointState
from headgate.fleet.reading import EngineReading

FULL_CACHE = 0.9
FULL_BATCH = 0.95
"""A batch is full if this share of its largest size is always running while other requests wait."""
MIN_AHEAD, AHEAD_SHARE = 2, 1 / 32
"""Requests that may wait in the engine, so that it can start one as soon as another ends. In most steps, one
of hundreds ends."""
AHEAD_S = 0.5
"""Also the requests that end in this time, unless the cache is full: an engine with few requests to start
leaves its steps almost empty."""
MORE_REQUESTS, MORE_TOKENS = 32, 2048
"""Raise of an engine with an empty queue, whichever is less: prompts for about one step."""
SOON_S = 0.2
"""An engine with an empty queue may have as many more as end in this time: the last of them starts then."""
MORE_SHARE = 1 / 4
"""Raise of an engine that has shown a limit, relative to its requests: the empty queue may be chance."""
MAX_DOUBLINGS = 8
USED_SHARE = 0.75
"""It keeps up with its limit if it had this share of it."""
GROWTH = 1.05
"""If the batch grows by this factor, the engine is still taking up its queue."""
WINDOW_S = 0.9
"""A little less than the interval between two readings that are rare."""


class Window:
    """Readings within a second, of our requests: total, running and queued."""

    __slots__ = ("_ended", "began_at", "least_working", "most", "waiting", "working")

    def __init__(self, at: float = -math.inf, ended: int = 0) -> None:
        self.began_at = at
        self._ended = ended
        self.most = self.working = 0.0
        self.least_working = self.waiting = math.inf
        """The minimum of the queue; the others are maxima."""

    def see(self, working: float, waiting: float) -> None:
        """Add a reading."""
        self.most = max(self.most, working + waiting)
        self.working = max(self.working, working)
        self.least_working = min(self.least_working, working)
        self.waiting = min(self.waiting, waiting)

    def per_s(self, at: float, ended: int) -> float:
        """Requests per second that ended in the window, if it ends now."""
        return (ended - self._ended) / (at - self.began_at)


class Slots:
    """Limits of one endpoint, updated by its readings; in between, the ledger counts."""

    __slots__ = (
        "_ahead",
        "_before",
        "_doublings",
        "_load",
        "_mean_tokens",
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
        """Requests per second that ended in the last window."""
        self._doublings = 0
        self._mean_tokens = 0.0
        """Mean tokens per request whose prefill is not visible, at the last reading with any."""
        self.reading: EngineReading | None = None
        """The last reading applied. If the endpoint has another, call `follow`."""
        self.bound = float(without_reading)
        """Limit of requests in any case; infinite as long as the endpoint has shown no limit. An engine
        without readings may have `without_reading`, or fewer if it has shown a lower limit before."""
        self.evident = float(without_reading)
        """Requests that it may have whatever the ledger predicts for prompts whose prefill is not visible."""
        self.evident_tokens = math.inf
        """Limit of tokens of such prompts."""
        self._others_waiting = 0
        self._ahead = float(MIN_AHEAD)

    def follow(self) -> None:
        """Apply the latest reading, or that there is no current one."""
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
        """Whether the engine queues more requests than it needs ahead, no matter who sent them. Of ours,
        those of the last reading that may still lack a first token count."""
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
        # The queue holds ours and others' (such as those of another worker) in proportion.
        waits = waiting * min(requests / (running + waiting), 1.0) if waiting else 0.0
        window, before = self._window, self._before
        window.see(requests - waits, waits)
        begins = reading.at - window.began_at >= WINDOW_S
        has_ended = begins and window.began_at > -math.inf
        if begins:
            ended = load.started - load.own_requests
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
        """Bound an engine that runs `working` requests and starts another when one of them ends."""
        self._stop_growth()
        self.bound = self.evident = max(working, 1.0) + max(MIN_AHEAD, working * AHEAD_SHARE)

    def _keep_ahead(self, window: Window, is_standing: bool) -> None:
        """Bound an engine in which some requests wait, and which starts as many as its steps hold."""
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
        """Raise the bound, because none of our requests waits in the engine."""
        tokens = self._load.unseen_tokens
        if requests >= USED_SHARE * self.evident or tokens >= USED_SHARE * self.evident_tokens:
            self._doublings = min(self._doublings + 1, MAX_DOUBLINGS)
        else:
            self._doublings = 0
        if tokens:
            self._mean_tokens = tokens / self._load.requests
        most, soon = max(requests, self._window.most), self._per_s * SOON_S
        more = MORE_REQUESTS if self.bound == math.inf else max(MIN_AHEAD, most * MORE_SHARE)
        self.evident = float(most + max(more * 2**self._doublings, soon))
        self.evident_tokens = tokens + max(float(MORE_TOKENS << self._doublings), soon * self._mean_tokens)
        self.bound = max(self.bound, self.evident)


def _has_full_batch(*windows: Window) -> bool:
    """Whether the batch kept its size while other requests waited: prefill alone would let it vary."""
    most = max(window.working for window in windows)
    return all(window.waiting and window.least_working >= FULL_BATCH * most for window in windows)
