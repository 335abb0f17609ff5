"""What the passes so far have left behind: bounded, and the same after a restart.

Nothing here depends on a policy, so that a policy can change without losing it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.autoscaling import windows
from headgate.autoscaling.capacity import Learned
from headgate.autoscaling.forecast import Forecast
from headgate.autoscaling.samples import Observation
from headgate.autoscaling.starting import Starts
from headgate.autoscaling.windows import Entries

__all__ = ["History"]

_LARGEST_TEXT: Final = 65_536
_LONGEST_GAP_S: Final = 120.0


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Made by `empty` and by passes; its fields are private to this room."""

    highs: Entries = ()
    lows: Entries = ()
    """Recommendations: maxima and minima."""
    most: Entries = ()
    fewest: Entries = ()
    """Replicas that there were: maxima and minima."""
    recommended_at: float | None = None
    panic_until: float | None = None
    passed_at: float | None = None
    starts: Starts = Starts()
    forecast: Forecast = Forecast()
    capacities: tuple[Learned, ...] = ()

    @property
    def expected_start_s(self) -> float | None:
        """How long a new replica takes until it is ready; None before one was seen to start."""
        return self.starts.expected_s

    @classmethod
    def empty(cls) -> History:
        return _EMPTY

    def to_json(self) -> str:
        """At most a few kilobytes."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> History:
        """Raises ValueError if `to_json` did not write the text."""
        if len(text) > _LARGEST_TEXT:
            raise ValueError(f"a history of {len(text)} characters is longer than {_LARGEST_TEXT}")
        try:
            found = msgspec.json.decode(text, type=History)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"not a history of an autoscaler: {error}") from error
        for entries in (found.highs, found.lows, found.most, found.fewest):
            if not windows.are_in_order(entries):
                raise ValueError("not a history of an autoscaler: its entries are not in the order of time")
        return found

    def observed(self, observation: Observation) -> History:
        """Take in everything but the metrics."""
        now = observation.now
        seen = self.with_replicas(now, observation.current)
        starts = self.starts.after(observation, self.passed_at)
        return msgspec.structs.replace(seen, starts=starts, passed_at=now)

    def with_replicas(self, now: float, current: int) -> History:
        """There are `current` replicas, and there were until now."""
        return msgspec.structs.replace(
            self,
            most=windows.with_high(self.most, now, current),
            fewest=windows.with_low(self.fewest, now, current),
        )

    def with_recommendation(self, now: float, recommended: int) -> History:
        return msgspec.structs.replace(
            self,
            highs=windows.with_high(self.highs, now, recommended),
            lows=windows.with_low(self.lows, now, recommended),
            recommended_at=now,
        )

    def settled(self, now: float, current: int) -> History:
        """Without a recommendation for some time, the current number counts as one: a change must have been
        recommended for the whole window, and nobody knows what would have been recommended meanwhile."""
        last = self.recommended_at
        if last is not None and 0 <= now - last <= _LONGEST_GAP_S:
            return self
        return self.with_recommendation(now, current)


_EMPTY = History()
