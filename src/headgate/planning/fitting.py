"""Learn the profile of an engine from what its requests experience.

Observations are kept by batch size (for prefills: by tokens times batch), in bins, the latest few of each. A
line is fitted to the medians of the bins, so that outliers have no effect, and observations at one batch size
do not displace those at another. Older observations count less, and if those of one bin move far, the engine
has changed and older ones are dropped.

The profile of the spec is the prior of the fit and its bound, and is used as it is until observations cover
enough batch sizes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

import msgspec

from headgate.planning.lines import Line, Point, fit
from headgate.planning.replica import MAX_BATCH, Profile

__all__ = ["Fitted", "Observation", "ProfileFit", "StateError"]

MAX_TOKENS: Final = 100_000_000
MAX_MS: Final = 10_000_000.0
"""Longer times, and more tokens, are not of an engine."""
KEPT: Final = 12
"""Observations of a bin."""
_BINS_PER_DOUBLING: Final = 2
MAX_BINS: Final = 96
FEWEST: Final = 3
"""Observations of a bin that count: the median of fewer may be an outlier."""
HALF_LIFE_S: Final = 3600.0
LEAST_WEIGHT: Final = 1 / 16
"""What an old observation still counts: nothing newer may be known of its batch size."""
MAX_AGE_S: Final = 7 * 86_400.0
CHANGED: Final = 1.5
STREAK: Final = 5
"""An engine has changed if this many observations in turn, of one bin, are off by that factor."""
BINS_TO_USE: Final = 3
SPREAD_TO_USE: Final = 2.0
"""Least ratio of the largest and the smallest batch size."""
OBSERVATIONS_TO_USE: Final = 20
ERROR_TO_USE: Final = 0.25
"""Largest relative distance of observations from a line that is used."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What requests of one replica experienced, as means over a short time. Times of 0 are unknown."""

    batch: float
    """Requests in service, those observed included."""
    prompt_tokens: float = 0.0
    """Tokens that are prefilled: without those of a cache."""
    ttft_ms: float = 0.0
    """From the start of the prefill to the first token, without the time in queues."""
    itl_ms: float = 0.0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of one of the two lines."""

    line: Line
    observations: int
    reason: str = ""
    """Why the spec's values stay; empty if the fit is used."""

    @property
    def is_used(self) -> bool:
        return not self.reason


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned of an engine."""

    profile: Profile
    """To be planned with: learned values where they may be used, and the spec's elsewhere."""
    decode: Part
    prefill: Part


class StateError(ValueError):
    """A saved state cannot be read; the message says why."""


class _Seen(NamedTuple):
    x: float
    y: float
    at_s: float


class _State(msgspec.Struct, forbid_unknown_fields=True):
    decode: list[tuple[float, float, float]] = []
    prefill: list[tuple[float, float, float]] = []


class _Samples:
    """Observations of one line."""

    def __init__(self) -> None:
        self._bins: dict[int, deque[_Seen]] = {}

    def __iter__(self) -> Iterator[_Seen]:
        """In the order of time; those of one bin in the order in which they came."""
        return iter(
            sorted((seen for each in self._bins.values() for seen in each), key=lambda seen: seen.at_s)
        )

    def add(self, seen: _Seen) -> None:
        """Keep an observation with positive numbers."""
        number = math.floor(math.log2(seen.x) * _BINS_PER_DOUBLING)
        kept = self._bins.get(number)
        if kept is None:
            if len(self._bins) >= MAX_BINS:
                return
            kept = self._bins[number] = deque(maxlen=KEPT)
        kept.append(seen)
        if _has_changed(kept):
            self._drop_before(kept[-STREAK].at_s, number)
        self._drop_before(seen.at_s - MAX_AGE_S)

    def _drop_before(self, at_s: float, streak_of: int | None = None) -> None:
        """Drop older observations, and all of one bin but the last few."""
        for number, kept in list(self._bins.items()):
            most = STREAK if number == streak_of else KEPT
            left = [seen for seen in islice(kept, max(len(kept) - most, 0), None) if seen.at_s >= at_s]
            if left:
                self._bins[number] = deque(left, maxlen=KEPT)
            else:
                del self._bins[number]

    def points(self) -> list[Point]:
        """The bins that count, as their medians."""
        newest_s = max((seen.at_s for seen in self), default=0.0)
        return [
            Point(
                median(seen.x for seen in kept),
                median(seen.y for seen in kept),
                sum(_weight(newest_s - seen.at_s) for seen in kept),
            )
            for _, kept in sorted(self._bins.items())
            if len(kept) >= FEWEST
        ]

    def fitted(self, prior: Line) -> Part:
        points, observations = self.points(), sum(map(len, self._bins.values()))
        if not points:
            return Part(line=prior, observations=observations, reason="no observations")
        line = fit(points, prior)
        return Part(line=line, observations=observations, reason=_reason(points, line, observations))


def _weight(age_s: float) -> float:
    return max(math.exp2(-age_s / HALF_LIFE_S), LEAST_WEIGHT)


def _has_changed(kept: deque[_Seen]) -> bool:
    """Whether the latest observations are all far above, or all far below, those before them."""
    if len(kept) < FEWEST + STREAK:
        return False
    before = median(seen.y for seen in islice(kept, len(kept) - STREAK))
    latest = [seen.y for seen in islice(kept, len(kept) - STREAK, None)]
    return min(latest) > before * CHANGED or max(latest) < before / CHANGED


def _reason(points: list[Point], line: Line, observations: int) -> str:
    """Why a fit cannot be used; empty if it can."""
    least, most = points[0].x, points[-1].x
    if observations < OBSERVATIONS_TO_USE:
        return f"{observations} observations of {OBSERVATIONS_TO_USE}"
    if len(points) < BINS_TO_USE or most < least * SPREAD_TO_USE:
        return f"too little variation: from {least:.3g} to {most:.3g}"
    if line.error > ERROR_TO_USE:
        return f"observations are {100 * line.error:.0f} % off a line"
    if line.at(most) <= 0:
        return "no time is left"
    return ""


class ProfileFit:
    """What was observed of one kind of engine. Times of observations, `now`, are seconds of any one clock."""

    def __init__(self) -> None:
        self._decode = _Samples()
        self._prefill = _Samples()
        self.rejected = 0
        """Observations whose numbers no engine has."""

    def observe(self, seen: Observation, now: float) -> bool:
        """Add an observation; False if it has no number that counts."""
        decode = _Seen(seen.batch, seen.itl_ms, now)
        prefill = _Seen(seen.prompt_tokens * seen.batch, seen.ttft_ms, now)
        is_batch = 1 <= seen.batch <= MAX_BATCH and math.isfinite(now)
        decodes = is_batch and _is_time(seen.itl_ms)
        prefills = is_batch and 1 <= seen.prompt_tokens <= MAX_TOKENS and _is_time(seen.ttft_ms)
        if decodes:
            self._decode.add(decode)
        if prefills:
            self._prefill.add(prefill)
        self.rejected += not (decodes or prefills)
        return decodes or prefills

    def fitted(self, spec: Profile) -> Fitted:
        """The profile to plan with, by the spec's and what was observed."""
        decode = self._decode.fitted(Line(spec.alpha_ms, spec.beta_ms))
        prefill = self._prefill.fitted(Line(spec.gamma_ms, spec.delta_ms))
        return Fitted(profile=_combined(spec, decode, prefill), decode=decode, prefill=prefill)

    def dump(self) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(_State(decode=list(self._decode), prefill=list(self._prefill)))

    @classmethod
    def load(cls, data: bytes) -> ProfileFit:
        """A fit from its state; raises StateError for what `dump` does not write."""
        try:
            state = msgspec.json.decode(data, type=_State)
        except (msgspec.DecodeError, RecursionError) as error:
            raise StateError(f"not the state of a fit: {error}") from error
        made = cls()
        for samples, rows in ((made._decode, state.decode), (made._prefill, state.prefill)):
            _restore(samples, rows)
        return made


def _restore(samples: _Samples, rows: Iterable[tuple[float, float, float]]) -> None:
    for x, y, at_s in rows:
        if not (1 <= x <= MAX_TOKENS * MAX_BATCH and _is_time(y) and math.isfinite(at_s)):
            raise StateError(f"not the state of a fit: an observation of {y} ms at {x}")
        samples.add(_Seen(x, y, at_s))


def _is_time(value: float) -> bool:
    return 1e-6 <= value <= MAX_MS


def _combined(spec: Profile, decode: Part, prefill: Part) -> Profile:
    if decode.is_used:
        spec = msgspec.structs.replace(spec, alpha_ms=decode.line.intercept, beta_ms=decode.line.slope)
    if prefill.is_used:
        spec = msgspec.structs.replace(spec, gamma_ms=prefill.line.intercept, delta_ms=prefill.line.slope)
    return spec
