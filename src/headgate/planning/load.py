"""The load of a model: what gateways or engines have measured, and what a plan should be made for. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from headgate.autoscaling.forecast import Forecast
from headgate.planning import levels
from headgate.planning.bursts import Bursts
from headgate.planning.spread import NONE, Spread

__all__ = [
    "CLEARED_S",
    "METRICS_MISSING",
    "METRICS_STALE",
    "PROMETHEUS_ERROR",
    "PROMPT_SQUARES",
    "UNBEGUN_TOKENS",
    "WINDOW_S",
    "Load",
    "LoadFilter",
    "MeanLoad",
    "Missing",
    "of_signals",
]

METRICS_MISSING: Final = "MetricsMissing"
METRICS_STALE: Final = "MetricsStale"
PROMETHEUS_ERROR: Final = "PrometheusError"
"""Reasons in the condition MetricsAvailable."""

WINDOW_S: Final = 15.0
"""Signals of gateways are means over this time."""
UNBEGUN_TOKENS: Final = "headgate:unbegun_tokens"
PROMPT_SQUARES: Final = "headgate:prompt_squares"
"""Signals that are no metrics of policies."""
_THOUSAND: Final = 1000.0
CLEARED_S: Final = 60.0
"""Requests that have waited for a while are to be served within this time, beside those that arrive."""
WAITED_S: Final = 10.0
"""A queue counts by the fewest requests that it had within this time: short ones come and go by chance."""
SILENCE_S: Final = 300.0
"""Without any arrival for this long, none is expected."""
FORGOTTEN_S: Final = 900.0
"""What was known before a gap of this length does not count."""
_WINDOWS: Final = 4
"""How many windows are about a minute."""
_LOOKS: Final = 64
_TREND_CERTAIN: Final = 2.0
"""How many standard deviations of chance a growth that is forecast exceeds."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The requests for a model. Tokens are those of the mean request."""

    arrivals_per_s: float
    prompt_tokens: float = 0.0
    """Those in caches included."""
    output_tokens: float = 0.0
    cached_share: float = 0.0
    """The share of prompt tokens that caches have."""
    prompt_spread: float = 0.0
    """Variance of the uncached tokens of prompts, as a multiple of the square of their mean; 0: none, or
    unknown."""
    waiting: int = 0
    """Requests that wait in gateways or engines."""
    in_engines: int = 0
    """Requests in engines, some of which may wait there, that are not among `waiting`."""
    unbegun_tokens: float = 0.0
    """Uncached tokens of their prompts that engines have not begun."""
    ttft_ms: float = 0.0
    """Observed means of the time to the first token and between tokens; 0: unknown."""
    itl_ms: float = 0.0
    dispersion: float = 0.0
    """Variance of arrivals as a multiple of that of chance; 0: unknown."""
    timed_requests: int = 0
    """How many requests the mean TTFT is of; 0: unknown."""
    timed_tokens: int = 0
    """How many tokens the mean ITL is of."""
    queued_requests: int = 0
    """Those of `timed_requests` that may have waited in an engine."""


class Missing(NamedTuple):
    """Why there is no load."""

    reason: str
    message: str


def of_signals(metrics: Mapping[str, float]) -> Load:
    """From the signals of gateways, by their names."""
    arrivals = metrics.get("headgate:arrivals", 0.0)
    prompt = metrics.get("headgate:prompt_tokens", 0.0)
    cached = metrics.get("headgate:cached_tokens", 0.0)
    output = metrics.get("headgate:output_tokens", 0.0)
    uncached = max(prompt - cached, 0.0) / _THOUSAND
    squares = metrics.get(PROMPT_SQUARES, 0.0)
    return Load(
        arrivals_per_s=arrivals,
        prompt_tokens=prompt / arrivals if arrivals else 0.0,
        output_tokens=output / arrivals if arrivals else 0.0,
        cached_share=min(cached / prompt, 1.0) if prompt else 0.0,
        prompt_spread=max(squares * arrivals / uncached**2 - 1, 0.0) if uncached > NONE else 0.0,
        waiting=round(metrics.get("headgate:requests_waiting", 0.0)),
        in_engines=round(metrics.get("headgate:requests_running", 0.0)),
        unbegun_tokens=metrics.get(UNBEGUN_TOKENS, 0.0),
    )


class MeanLoad:
    """The mean of a load over the last minute, from readings that are means over `WINDOW_S` each.

    Times of tokens go with the requests that were in service meanwhile, which a rate over few seconds tells
    only roughly.
    """

    def __init__(self) -> None:
        self._at = -math.inf
        self._windows: deque[Load] = deque(maxlen=_WINDOWS)

    def add(self, load: Load, now: float) -> None:
        """Take a reading, unless its window is known in part. To be called about once a second."""
        since_s = now - self._at
        if 0 <= since_s < WINDOW_S:
            return
        if not 0 <= since_s < 2 * WINDOW_S:
            self._windows.clear()
        self._at = now
        self._windows.append(load)

    def mean(self) -> Load | None:
        """None if less than a minute is known."""
        windows = self._windows
        if len(windows) < _WINDOWS:
            return None
        arrivals = sum(each.arrivals_per_s for each in windows)
        prompt = sum(each.arrivals_per_s * each.prompt_tokens for each in windows)
        cached = sum(each.arrivals_per_s * each.prompt_tokens * each.cached_share for each in windows)
        requests = sum(each.timed_requests for each in windows)
        tokens = sum(each.timed_tokens for each in windows)
        return Load(
            arrivals_per_s=arrivals / _WINDOWS,
            prompt_tokens=prompt / arrivals if arrivals else 0.0,
            output_tokens=1 + tokens / requests if requests else 0.0,
            cached_share=cached / prompt if prompt else 0.0,
            waiting=max(each.waiting for each in windows),
            ttft_ms=sum(each.ttft_ms * each.timed_requests for each in windows) / max(requests, 1),
            itl_ms=sum(each.itl_ms * each.timed_tokens for each in windows) / max(tokens, 1),
            timed_requests=requests,
            timed_tokens=tokens,
            queued_requests=sum(each.queued_requests for each in windows),
        )


class LoadFilter:
    """Follows the load of one model in one namespace.

    The load that it returns is steady while nothing changes but by chance. A clear step counts at once, with
    what waits, and with what a trend adds while replicas start.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """Arrivals and tokens are means over the last `window_s` before a call, unless that says another
        time."""
        self._window_s = window_s
        self._last: tuple[float, Load, Load] | None = None
        """When it was last called, with what, and what it returned."""
        self._begin()

    def _begin(self) -> None:
        self._arrivals = levels.Level(levels.by_arrivals)
        self._prompt = levels.Level(levels.by_size)
        self._output = levels.Level(levels.by_size)
        self._cached = levels.Level(levels.by_share)
        self._spread = Spread()
        self._bursts = Bursts(self._window_s)
        self._forecast = Forecast()
        self._waiting: deque[tuple[float, int]] = deque(maxlen=_LOOKS)
        self._arrived_at = -math.inf

    def add(self, load: Load, now: float, start_s: float = 0.0, window_s: float | None = None) -> Load:
        """The load to plan for, with `arrivals_per_s` that serve what waits as well. `start_s` is how long a
        replica takes to start; with 0, nothing is forecast.

        Once a second is enough. A call with the same arguments returns the same, and changes nothing.
        """
        last = self._last
        if last is not None and last[0] == now and last[1] == load:
            return last[2]
        if window_s is not None:
            self._window_s = window_s
        since_s = math.inf if last is None else now - last[0]
        if not 0 <= since_s <= FORGOTTEN_S:
            self._begin()
            since_s = self._window_s
        arrivals = self._level(load, now, min(since_s, self._window_s))
        arrivals = max(arrivals, self._bursts.add(load.arrivals_per_s, now))
        arrivals += self._growth(arrivals, now, start_s) + self._backlog(load, now) / CLEARED_S
        planned = Load(
            arrivals_per_s=arrivals,
            prompt_tokens=self._prompt.told,
            output_tokens=self._output.told,
            cached_share=self._cached.told,
            prompt_spread=self._spread.told,
            waiting=self._waiting_of(load),
            ttft_ms=load.ttft_ms,
            itl_ms=load.itl_ms,
            dispersion=self._bursts.dispersion,
            timed_requests=load.timed_requests,
            timed_tokens=load.timed_tokens,
            queued_requests=load.queued_requests,
        )
        self._last = (now, load, planned)
        return planned

    def _level(self, load: Load, now: float, new_s: float) -> float:
        rate, window_s = load.arrivals_per_s, self._window_s
        if rate > 0:
            self._arrived_at = now
        elif now - self._arrived_at > SILENCE_S and self._arrivals.told:
            self._arrivals = levels.Level(levels.by_arrivals)
        whole, new = rate * window_s, rate * new_s
        if whole > 0:
            for level, value in ((self._prompt, load.prompt_tokens), (self._output, load.output_tokens)):
                if value > 0:
                    level.add(value, whole, new, now, window_s)
            self._spread.add(load.prompt_spread, load.prompt_tokens * (1 - load.cached_share), new, now)
            if load.prompt_tokens > 0:
                self._cached.add(load.cached_share, whole, new, now, window_s)
        return self._arrivals.add(rate, window_s, new_s, now, window_s)

    def _growth(self, arrivals: float, now: float, start_s: float) -> float:
        """Arrivals that a trend adds until a replica that is created now is ready."""
        if not start_s:
            return 0.0
        self._forecast = self._forecast.after(now, arrivals, start_s)
        outlook = self._forecast.outlook(start_s)
        # The forecast has a level of its own, which follows later.
        growth = outlook.needed - self._forecast.level if outlook.method else 0.0
        return growth if growth > _TREND_CERTAIN * math.sqrt(arrivals / outlook.horizon_s) else 0.0

    def _backlog(self, load: Load, now: float) -> int:
        looks = self._waiting
        waiting = self._waiting_of(load)
        looks.append((now, waiting))
        while len(looks) > 1 and looks[1][0] <= now - WAITED_S:
            looks.popleft()
        if not self._arrivals.told:
            return waiting
        return min(each for _, each in looks) if len(looks) > 1 else 0

    def _waiting_of(self, load: Load) -> int:
        """Also those in engines, by the tokens of a prompt."""
        tokens = self._prompt.told * (1 - self._cached.told)
        if not load.unbegun_tokens or not tokens:
            return load.waiting
        return load.waiting + round(min(load.unbegun_tokens / tokens, load.in_engines))
