"""Keeps replicas for a while after fewer would do, so that noise does not start and stop them. Pure."""

from __future__ import annotations

from typing import Final

from headgate.autoscaling import windows

__all__ = ["WINDOW_S", "Steadiness"]

WINDOW_S: Final = 300.0
"""How long fewer replicas must have sufficed."""


class Steadiness:
    """The replicas of one variant: more at once, and fewer once no more were desired during the window."""

    __slots__ = ("_highs", "_window_s")

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """`window_s` is at most `windows.LONGEST_S`."""
        self._window_s = window_s
        self._highs: windows.Entries = ()

    def decide(self, desired: int, now: float) -> int:
        """The replicas to have: the most that were desired in the last `window_s`.

        A call with the same arguments decides the same. After a restart, call it first with the replicas of
        the last plan, so that they are kept.
        """
        self._highs = windows.with_high(self._highs, now, desired)
        found = windows.extreme(self._highs, now - self._window_s, or_at=False)
        return desired if found is None else found[1]

    def forget(self) -> None:
        """What was desired before does not count, as after a change of the objectives or of the profile."""
        self._highs = ()
