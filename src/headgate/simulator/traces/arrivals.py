"""When the requests of a trace arrive in a replay: which of them, how fast, and spread over its time grid."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from headgate.simulator.traces.timed import TimedRequest

_ON_GRID = 0.9
"""The share of pauses between times that must be whole multiples of a grid for it to be one."""
_COARSE_S = 0.5
"""Below, a grid is only the clock's resolution."""
_CROWDED = 2.0
"""Requests that a time of a grid has on average at least: otherwise they have times of their own."""
_TOLERANCE = 0.01


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay makes of the times of a trace."""

    limit: int | None = None
    """Only so many requests."""
    duration_s: float | None = None
    """Only requests before this time of the trace."""
    jitter_s: float = 0.0
    """Each request comes later by a uniform share of this, but for those that come after an answer."""
    rate_scale: float = 1.0
    """2 lets them come twice as fast."""
    rate_per_s: float | None = None
    """So fast on average; instead of `rate_scale`."""


def arrange(requests: Iterable[TimedRequest], arrivals: Arrivals, rng: random.Random) -> list[TimedRequest]:
    """The requests of a replay in the order of their arrival, the times changed as `arrivals` says.

    Which requests there are, and in what order, does not depend on the rate.
    """
    chosen = list(
        itertools.takewhile(
            lambda request: arrivals.duration_s is None or request.at_s < arrivals.duration_s,
            itertools.islice(requests, arrivals.limit),
        )
    )
    if arrivals.jitter_s:
        chosen = sorted(_spread(chosen, arrivals.jitter_s, rng), key=lambda request: request.at_s)
    scale = arrivals.rate_scale
    if arrivals.rate_per_s is not None and (rate := mean_rate(chosen)):
        scale = arrivals.rate_per_s / rate
    return chosen if scale == 1.0 else [_at(request, request.at_s / scale) for request in chosen]


def _spread(requests: Iterable[TimedRequest], jitter_s: float, rng: random.Random) -> list[TimedRequest]:
    """Turns that follow an answer stay where the first of their conversation is."""
    shifted = []
    late_s = 0.0
    for request in requests:
        if request.think_s is None:
            late_s = rng.random() * jitter_s
        shifted.append(_at(request, request.at_s + late_s))
    return shifted


def mean_rate(requests: Sequence[TimedRequest]) -> float:
    """Requests a second from the first to the last; 0 if all come at once."""
    span = requests[-1].at_s - requests[0].at_s if requests else 0.0
    return len(requests) / span if span else 0.0


def grid_s(requests: Iterable[TimedRequest]) -> float:
    """The grid in seconds to which the times of a trace were rounded; 0 if they have none.

    Mooncake's conversations come in bursts of ten at every third second: as recorded, not as they were sent.
    """
    crowds = Counter(request.at_s for request in requests)
    times = sorted(crowds)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    if not pauses or crowds.total() < _CROWDED * len(times):
        return 0.0
    grid = statistics.median(pauses)
    if grid < _COARSE_S:
        return 0.0
    on_grid = sum(abs(pause / grid - round(pause / grid)) <= _TOLERANCE for pause in pauses)
    return grid if on_grid >= _ON_GRID * len(pauses) else 0.0


def _at(request: TimedRequest, at_s: float) -> TimedRequest:
    return msgspec.structs.replace(request, at_s=at_s)
