"""Keeps replicas for a while after fewer would do, so that noise does not start and stop them. Pure."""

from __future__ import annotations

from typing import Final

from headgate.autoscaling import windows
from headgate.planning.bursts import BURSTY

__all__ = ["LONGEST_S", "SHORTEST_S", "Steadiness", "window_s"]

SHORTEST_S: Final = 60.0
LONGEST_S: Final = 300.0
"""How long fewer replicas must have sufficed."""
_STEP_S: Final = 30.0
"""Windows are whole multiples, so that what is said of them seldom changes."""


def window_s(dispersion: float) -> float:
    """How long fewer replicas must have sufficed, for arrivals whose variance is `dispersion` times that of
    chance (0: unknown).

    What goes down at a steady rate stays down, and a burst may be followed by the next within minutes: the
    window grows with the dispersion, from 60 s at 1 to 300 s at `BURSTY`.
    """
    if dispersion <= 0.0:
        return LONGEST_S
    share = min(max((dispersion - 1.0) / (BURSTY - 1.0), 0.0), 1.0)
    return _STEP_S * round((SHORTEST_S + share * (LONGEST_S - SHORTEST_S)) / _STEP_S)


class Steadiness:
    """The replicas of one variant: more at once, and fewer once no more were desired during the window."""

    __slots__ = ("_highs",)

    def __init__(self) -> None:
        self._highs: windows.Entries = ()

    def decide(self, desired: int, now: float, window_s: float = LONGEST_S) -> int:
        """The replicas to have: the most that were desired in the last `window_s`, at most
        `windows.LONGEST_S`. It may be another one each time.

        A call with the same arguments decides the same. After a restart, call it first with the replicas of
        the last plan, so that they are kept.
        """
        self._highs = windows.with_high(self._highs, now, desired)
        found = windows.extreme(self._highs, now - window_s, or_at=False)
        return desired if found is None else found[1]

    def forget(self) -> None:
        """What was desired before does not count, as after a change of the objectives or of the profile."""
        self._highs = ()
