"""Whether the arrivals of a pool have stepped up, and by how much. Pure.

A mean over 15 s needs 15 s to follow a step. So once a step is beyond chance, the mean since then counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

CERTAIN: Final = 6.0
"""How many standard deviations of chance a step exceeds. With 5, some bursts of Azure's and ServeGen's traces
were taken for steps, at 2 % more GPU hours."""
MIN_ARRIVALS: Final = 12
"""Arrivals since a step, at least: the chance of fewer is not told by its standard deviation."""
SLOTS_PER_S: Final = 10
MIN_SLOTS: Final = 6
"""Tenths of the last second with arrivals, at least: requests that come all at once are a backlog, which is
counted as such, and tell nothing about what comes next."""
MIN_BEFORE_S: Final = 3.0
MIN_AFTER_S: Final = 0.9
"""Readings are about a second apart."""


class Reading(NamedTuple):
    """How many requests had arrived at a time, in seconds, and in how many slots of time any had."""

    at: float
    arrived: int
    slots: int


def factor(readings: Sequence[Reading]) -> float:
    """The rate of arrivals since the clearest step upwards, relative to their mean over all readings; 1 if
    there was none, or if it is over.

    The last of the readings is of now. Before the step, arrivals may be burstier than by chance: how unequal
    the numbers between two readings are tells how much so.
    """
    best, best_z = None, CERTAIN
    first, last = readings[0], readings[-1]
    lately = next((each for each in reversed(readings) if last.at - each.at >= MIN_AFTER_S), None)
    if lately is None or last.slots - lately.slots < MIN_SLOTS:
        return 1.0
    for number, split in enumerate(readings[1:-1], 1):
        before_s, after_s = split.at - first.at, last.at - split.at
        if before_s < MIN_BEFORE_S or after_s < MIN_AFTER_S:
            continue
        before, after = split.arrived - first.arrived, last.arrived - split.arrived
        if after < MIN_ARRIVALS:
            continue
        mean = (before + after) / (before_s + after_s)
        chance = mean * (1.0 / before_s + 1.0 / after_s) * _burstiness(readings[: number + 1])
        z = (after / after_s - before / before_s) / math.sqrt(chance)
        if z > best_z:
            best, best_z = split, z
    if best is None:
        return 1.0
    since = min(_between(best, last), _between(lately, last))
    return max(since / _between(first, last), 1.0)


def _between(first: Reading, last: Reading) -> float:
    return (last.arrived - first.arrived) / (last.at - first.at)


def _burstiness(readings: Sequence[Reading]) -> float:
    """The variance of arrivals between readings, relative to that of chance; at least 1."""
    mean = _between(readings[0], readings[-1])
    if not mean:
        return 1.0
    excess = 0.0
    for before, after in itertools.pairwise(readings):
        expected = mean * (after.at - before.at)
        if expected > 0:
            excess += (after.arrived - before.arrived - expected) ** 2 / expected
    return max(excess / max(len(readings) - 2, 1), 1.0)
