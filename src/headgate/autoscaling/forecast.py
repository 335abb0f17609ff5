"""How many replicas will be needed by the time that one which is created now is ready.

Two methods look ahead: the trend of the last minutes, and the same time of the day before. Each forecast is
compared with what came: its error, as it would have been used (never below the present need), against the
error of taking the present need as the future one. A method that is not better than this is off until it
would have been better again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

__all__ = ["Forecast", "Outlook"]

TREND, DAY = "trend", "day"

_SHORTEST_S: Final = 30.0
_LONGEST_S: Final = 1800.0
_LONGEST_GAP_S: Final = 600.0
_SLOT_S: Final = 900.0
_SLOTS: Final = 96
_DAILY_WEIGHT: Final = 0.5
_CHECKS_AHEAD: Final = 8
_EVIDENCE: Final = 8
_MEMORY: Final = 64
"""Forecasts by trend that count. Those by day count for a day."""
_ON: Final = 0.95
_LARGEST: Final = 1e9
_MOST: Final = 2.0
"""A forecast counts up to this multiple of the present need."""


class Outlook(NamedTuple):
    """What is expected in `horizon_s`, in replicas that are not rounded."""

    horizon_s: float
    method: str
    """trend, day, or "" while none is better than the present need."""
    needed: float
    """Equal to the present need, smoothed, without a method."""
    error: float | None
    """Mean absolute error of the method, or of the best one if none is in use; None before any comparison."""
    error_without: float | None
    """The same of taking the present need as the future one."""


Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Moment: TypeAlias = Annotated[float, Meta(ge=-1e12, le=1e12)]


class Score(msgspec.Struct, frozen=True, array_like=True):
    error: Amount = 0.0
    error_without: Amount = 0.0
    count: Count = 0
    is_on: bool = False

    def after(self, error: float, error_without: float, memory: int) -> Score:
        """The mean over about the last `memory` forecasts."""
        count = min(self.count + 1, memory)
        mean = self.error + (error - self.error) / count
        without = self.error_without + (error_without - self.error_without) / count
        better = mean < without * (1.0 if self.is_on else _ON)
        return Score(_short(mean), _short(without), count, count >= _EVIDENCE and better)


Check: TypeAlias = tuple[Moment, Amount, Amount | None, Amount | None]
"""When a forecast is compared; the need when it was made; the forecasts by trend and by day."""


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one target: bounded, and the same after a restart."""

    at: Moment = 0.0
    level: Amount = 0.0
    """The need in replicas, smoothed, and how much it grows per second."""
    slope: Annotated[float, Meta(ge=-1e12, le=1e12)] = 0.0
    checks: Annotated[tuple[Check, ...], Meta(max_length=2 * _CHECKS_AHEAD)] = ()
    trend: Score = Score()
    day: Score = Score()
    slots: Annotated[tuple[Amount | None, ...], Meta(max_length=_SLOTS)] = ()
    """Mean need in each quarter of an hour of the day; of several days, the last ones count most."""
    slot_mean: Amount = 0.0
    slot_count: Count = 0

    def after(self, now: float, needed: float, start_s: float) -> Forecast:
        """Take in the need of a pass. `start_s`: how long a replica takes to start."""
        horizon_s, needed = _horizon(start_s), min(needed, _LARGEST)
        slots, mean, count = self._with_slot(now, needed)
        elapsed_s = now - self.at
        if not 0 <= elapsed_s <= _LONGEST_GAP_S:
            return Forecast(now, needed, 0.0, (), self.trend, self.day, slots, mean, count)
        level, slope = self._smoothed(needed, elapsed_s, horizon_s)
        due = [check for check in self.checks if check[0] <= now]
        trend, day = self.trend, self.day
        for _, present, by_trend, by_day in due:
            without = abs(present - level)
            if by_trend is not None:
                trend = trend.after(abs(max(by_trend, present) - level), without, _MEMORY)
            if by_day is not None:
                memory = int(_SLOTS * _SLOT_S / _apart(horizon_s))
                day = day.after(abs(max(by_day, present) - level), without, memory)
        moved = Forecast(now, level, slope, self.checks[len(due) :], trend, day, slots, mean, count)
        return moved._with_check(horizon_s)

    def outlook(self, start_s: float) -> Outlook:
        """What is expected when a replica that is created now is ready."""
        horizon_s = _horizon(start_s)
        candidates = [
            (self.trend, TREND, self._by_trend(horizon_s)),
            (self.day, DAY, self._by_day(horizon_s)),
        ]
        scored = [entry for entry in candidates if entry[0].count and entry[2] is not None]
        if not scored:
            return Outlook(horizon_s, "", self.level, None, None)
        score, method, needed = min(scored, key=lambda entry: (not entry[0].is_on, entry[0].error))
        if not score.is_on or needed is None:
            return Outlook(horizon_s, "", self.level, score.error, score.error_without)
        needed = min(max(needed, self.level), _MOST * self.level)
        return Outlook(horizon_s, method, needed, score.error, score.error_without)

    def _smoothed(self, needed: float, elapsed_s: float, horizon_s: float) -> tuple[float, float]:
        """Holt's double exponential smoothing in continuous time: the level follows within about half the
        horizon, the slope within about two."""
        if elapsed_s == 0:
            return self.level, self.slope
        follow = 1 - math.exp(-elapsed_s / max(horizon_s / 2, _SHORTEST_S))
        turn = 1 - math.exp(-elapsed_s / (2 * horizon_s))
        expected = max(self.level + self.slope * elapsed_s, 0.0)
        level = expected + (needed - expected) * follow
        slope = self.slope + ((level - self.level) / elapsed_s - self.slope) * turn
        return _short(max(level, 0.0)), _short(slope)

    def _by_trend(self, horizon_s: float) -> float:
        """The slope fades with a time constant of twice the horizon."""
        fading_s = 2 * horizon_s
        return max(self.level + self.slope * fading_s * (1 - math.exp(-horizon_s / fading_s)), 0.0)

    def _by_day(self, horizon_s: float) -> float | None:
        """The present need, and what was added to it at this time of the days before."""
        before, after = _of_day(self.slots, self.at), _of_day(self.slots, self.at + horizon_s)
        return None if before is None or after is None else max(self.level + after - before, 0.0)

    def _with_check(self, horizon_s: float) -> Forecast:
        due = self.at + horizon_s
        if self.checks and due < self.checks[-1][0] + _apart(horizon_s):
            return self
        by_day = self._by_day(horizon_s)
        check = (
            round(due, 3),
            self.level,
            _short(self._by_trend(horizon_s)),
            None if by_day is None else _short(by_day),
        )
        return msgspec.structs.replace(self, checks=(*self.checks, check)[-2 * _CHECKS_AHEAD :])

    def _with_slot(self, now: float, needed: float) -> tuple[tuple[float | None, ...], float, int]:
        slot = int(now // _SLOT_S)
        last = int(self.at // _SLOT_S)
        if slot == last or not self.slot_count:
            count = self.slot_count + 1
            return self.slots, _short(self.slot_mean + (needed - self.slot_mean) / count), count
        slots = list(self.slots if len(self.slots) == _SLOTS else (None,) * _SLOTS)
        earlier = slots[last % _SLOTS]
        weight = 1.0 if earlier is None else _DAILY_WEIGHT
        slots[last % _SLOTS] = _short((earlier or 0.0) + (self.slot_mean - (earlier or 0.0)) * weight)
        return tuple(slots), _short(needed), 1


def _of_day(slots: Sequence[float | None], at: float) -> float | None:
    """The mean need at a time of day, between the middles of its two nearest slots."""
    if len(slots) != _SLOTS:
        return None
    position = at / _SLOT_S - 0.5
    first = math.floor(position)
    left, right = slots[first % _SLOTS], slots[(first + 1) % _SLOTS]
    if left is None or right is None:
        return None
    return left + (right - left) * (position - first)


def _horizon(start_s: float) -> float:
    return min(max(start_s, _SHORTEST_S), _LONGEST_S)


def _apart(horizon_s: float) -> float:
    """Seconds between two forecasts that are compared with what came."""
    return max(horizon_s / _CHECKS_AHEAD, _SHORTEST_S / 2)


def _short(number: float) -> float:
    """Six significant digits, which keeps the state small."""
    return float(f"{number:.6g}")
