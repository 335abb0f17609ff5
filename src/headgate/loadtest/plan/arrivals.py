"""When requests arrive: at an average rate, evenly or in irregular intervals. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import msgspec

from headgate.traffic.traces import TimedRequest

Process = Literal["poisson", "constant", "gamma"]
PROCESSES: Final[tuple[Process, ...]] = ("poisson", "constant", "gamma")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """An average rate, and how irregular the intervals between requests are."""

    rate_per_s: Annotated[float, msgspec.Meta(gt=0)]
    process: Process = "poisson"
    burstiness: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """With `gamma`: the shape of the distribution of intervals. 1 is a Poisson process, less is burstier, and
    more is more even: the deviation of an interval is its mean divided by the square root of this."""

    def times(self, rng: random.Random) -> Iterator[float]:
        """Endless times in seconds, the first at 0."""
        mean_s = 1 / self.rate_per_s
        at_s = 0.0
        while True:
            yield at_s
            if self.process == "constant":
                at_s += mean_s
            elif self.process == "gamma":
                at_s += rng.gammavariate(self.burstiness, mean_s / self.burstiness)
            else:
                at_s += rng.expovariate(self.rate_per_s)


def paced(requests: Sequence[TimedRequest], pace: Pace, rng: random.Random) -> list[TimedRequest]:
    """The same requests in the same order, at other times; turns that follow a response stay behind it."""
    times = pace.times(rng)
    told = []
    at_s = 0.0
    for request in requests:
        if request.think_s is None:
            at_s = next(times)
        told.append(msgspec.structs.replace(request, at_s=at_s))
    return told
