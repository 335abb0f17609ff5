"""Arrivals in a replay: which requests of a trace, how fast, and how they spread over its time grid."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from headgate.traffic.traces.timed import TimedRequest

_ON_GRID = 0.9
"""Share of intervals that must be multiples of a step for it to count as a grid."""
_COARSE_S = 0.5
"""Smaller steps are only clock resolution."""
_CROWDED = 2.0
"""Minimum mean number of requests at each time of a grid: with fewer, requests have their own times."""
_TOLERANCE = 0.01


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay changes the times of a trace."""

    limit: int | None = None
    """Number of requests, from the start."""
    duration_s: float | None = None
    """Only requests before this time of the trace."""
    jitter_s: float = 0.0
    """Maximum random delay of each request, uniform; not for requests that follow a response."""
    rate_scale: float = 1.0
    """Factor on the arrival rate: 2 is twice as fast."""
    rate_per_s: float | None = None
    """Average rate; replaces `rate_scale`."""


def arrange(requests: Iterable[TimedRequest], arrivals: Arrivals, rng: random.Random) -> list[TimedRequest]:
    """The requests of a replay in order of arrival, with their times changed by `arrivals`.

    The selection and the order of requests do not depend on the rate.
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
    """Turns that follow a response move with the first turn of their conversation."""
    shifted = []
    late_s = 0.0
    for request in requests:
        if request.think_s is None:
            late_s = rng.random() * jitter_s
        shifted.append(_at(request, request.at_s + late_s))
    return shifted


def mean_rate(requests: Sequence[TimedRequest]) -> float:
    """Requests per second from the first to the last; 0 if all arrive at once."""
    span = requests[-1].at_s - requests[0].at_s if requests else 0.0
    return len(requests) / span if span else 0.0


def grid_s(requests: Iterable[TimedRequest]) -> float:
    """The grid in seconds that the times of a trace were rounded to; 0 if there is none.

    Mooncake's conversations arrive in bursts of ten every three seconds: as recorded, not as they were sent.
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
