"""Settings of a pool's queue."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec

FairnessName: TypeAlias = Literal[
    "deficit-round-robin",
    "global-strict-fairness-policy",
    "round-robin-fairness-policy",
    "program-aware-fairness",
    "windowed-usage",
    "session-boost",
]
"""The policy that picks the next flow of a band: the first is Headgate's own, the next three have llm-d's
names, the last two are Kthena's fairness scheduling and session boost."""
OrderingName: TypeAlias = Literal[
    "fcfs-ordering-policy", "edf-ordering-policy", "slo-deadline-ordering-policy"
]
"""The policy that picks the next request of a flow."""

BY_USAGE = frozenset({"program-aware-fairness", "windowed-usage", "session-boost"})
"""Policies that depend on what requests have used, including requests that were not queued."""
FAIRNESS: tuple[FairnessName, ...] = get_args(FairnessName)
ORDERINGS: tuple[OrderingName, ...] = get_args(OrderingName)


_NOT_NEGATIVE = (
    *("ttl_s", "no_endpoint_ttl_s", "start_ttl_s"),
    *("max_requests", "max_bytes", "start_max_requests", "start_max_bytes"),
)


class BandSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one priority."""

    max_requests: int = 5000
    """Queued requests; 0 is no limit for the band."""
    max_bytes: int = 1_000_000_000
    fairness: FairnessName = "deficit-round-robin"
    ordering: OrderingName = "fcfs-ordering-policy"

    def problems(self) -> Iterator[str]:
        if self.max_requests < 0:
            yield f"max_requests: must not be negative, got {self.max_requests}"
        if self.max_bytes < 0:
            yield f"max_bytes: must not be negative, got {self.max_bytes}"
        if self.fairness not in FAIRNESS:
            yield f"fairness: no policy is called {self.fairness!r}; there are {', '.join(FAIRNESS)}"
        if self.ordering not in ORDERINGS:
            yield f"ordering: no policy is called {self.ordering!r}; there are {', '.join(ORDERINGS)}"


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of windowed-usage, for tokens and requests."""

    window_s: float = 300.0
    input_weight: float = 1.0
    output_weight: float = 2.0
    token_weight: float = 1.0
    request_weight: float = 0.0


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of session-boost."""

    max_sessions: int = 4096
    """Number of sessions remembered as recently served."""
    grace_s: float = 0.0
    """Grace period in which only their requests go; it delays no request beyond its length."""


class FlowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a pool's queue. Validated on creation: a ValueError names every wrong field."""

    is_on: bool = True
    """Whether requests are queued at all. If not, sheddable ones are rejected while the pool is saturated,
    and all others are sent."""
    ttl_s: float = 60.0
    """How long a request may be queued; 0 is no limit."""
    no_endpoint_ttl_s: float = 60.0
    """How long a request may wait for the first endpoint of its pool; 0 rejects it at once."""
    start_ttl_s: float = 600.0
    """The same for a pool that is started by its requests, even if queueing is off."""
    start_max_requests: int = 1000
    """Over all bands while such a pool has no endpoints; 0 is no limit besides `max_requests`."""
    start_max_bytes: int = 67_108_864
    max_requests: int = 5000
    """Over all bands; 0 is no limit. If it is reached, the lowest band drops requests."""
    max_bytes: int = 1_000_000_000
    band: BandSettings = BandSettings()
    """Settings of priorities without their own."""
    negative_band: BandSettings | None = None
    """Settings of negative priorities without their own; None is `band`."""
    bands: Mapping[int, BandSettings] = {}
    only_bands: bool = False
    """Whether requests of a priority that is not in `bands` wait in the next lower band."""
    weights: Mapping[str, float] = {}
    """Shares of flows in the work, relative to each other; the default is 1."""
    quantum: int = 1000
    """Tokens of work that a flow of weight 1 gets per turn."""
    window: WindowSettings = WindowSettings()
    sessions: SessionSettings = SessionSettings()
    floor_share: float = 0.0
    """The least share of the work for each band with queued requests, up to an equal part; 0 serves bands
    strictly in order."""
    promote_after_s: float = math.inf
    """A request that has waited so long precedes all younger ones, whatever its priority."""
    evicts_running: bool = False
    """Whether running sheddable requests are evicted for more important ones, before their first byte."""

    def __post_init__(self) -> None:
        problems = [*self._of_numbers(), *self._of_policies()]
        problems += [f"band.{problem}" for problem in self.band.problems()]
        if self.negative_band is not None:
            problems += [f"negative_band.{problem}" for problem in self.negative_band.problems()]
        for priority, band in self.bands.items():
            problems += [f"bands[{priority}].{problem}" for problem in band.problems()]
        if problems:
            raise ValueError("; ".join(problems))

    def band_of(self, priority: int) -> BandSettings:
        usual = self.band if priority >= 0 or self.negative_band is None else self.negative_band
        return self.bands.get(priority, usual)

    def while_starting(self) -> FlowSettings:
        """Those with the limits for requests that wait for the start of the pool."""
        return msgspec.structs.replace(
            self,
            max_requests=_lower(self.max_requests, self.start_max_requests),
            max_bytes=_lower(self.max_bytes, self.start_max_bytes),
        )

    @property
    def goes_by_usage(self) -> bool:
        """Whether any band uses such a policy."""
        bands = (self.band, self.negative_band, *self.bands.values())
        return any(band is not None and band.fairness in BY_USAGE for band in bands)

    def _of_numbers(self) -> Iterator[str]:
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if not value >= 0:
                yield f"{name}: must not be negative, got {value}"
        if not 0 <= self.floor_share <= 0.5:
            yield f"floor_share: must be from 0 to 0.5, got {self.floor_share}"
        if not self.promote_after_s > 0:
            yield f"promote_after_s: must be more than 0 seconds, got {self.promote_after_s}"
        if self.only_bands and not self.bands:
            yield "only_bands: needs `bands` to name at least one"

    def _of_policies(self) -> Iterator[str]:
        if self.quantum < 1:
            yield f"quantum: must be at least 1 token, got {self.quantum}"
        for flow, weight in self.weights.items():
            if not 0 < weight < math.inf:
                yield f"weights[{flow!r}]: must be more than 0, got {weight}"
        for name in ("input_weight", "output_weight", "token_weight", "request_weight"):
            if not getattr(self.window, name) >= 0:
                yield f"window.{name}: must not be negative, got {getattr(self.window, name)}"
        if not self.window.window_s >= 1:
            yield f"window.window_s: must be at least 1 second, got {self.window.window_s}"
        if self.sessions.max_sessions < 1:
            yield f"sessions.max_sessions: must be at least 1, got {self.sessions.max_sessions}"
        if not self.sessions.grace_s >= 0:
            yield f"sessions.grace_s: must not be negative, got {self.sessions.grace_s}"


def _lower(one: int, other: int) -> int:
    """The lower of two limits, of which 0 is none."""
    return min(one, other) if one and other else one or other
