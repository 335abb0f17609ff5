"""How the queue of a pool is set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

Fairness: TypeAlias = Literal[
    "deficit-round-robin",
    "global-strict-fairness-policy",
    "round-robin-fairness-policy",
    "program-aware-fairness",
    "windowed-usage",
    "session-boost",
]
"""Which flow of a band is next: the first is Headgate's own, the next three are llm-d's by their names, the
last two are Kthena's fairness scheduling and session boost."""
Ordering: TypeAlias = Literal["fcfs-ordering-policy", "edf-ordering-policy", "slo-deadline-ordering-policy"]
"""Which request of a flow is next."""

FAIRNESS: tuple[Fairness, ...] = Fairness.__args__  # type: ignore[attr-defined]
ORDERINGS: tuple[Ordering, ...] = Ordering.__args__  # type: ignore[attr-defined]


class BandSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one priority."""

    max_requests: int = 5000
    """That may wait; 0 is no bound of its own."""
    max_bytes: int = 1_000_000_000
    fairness: Fairness = "deficit-round-robin"
    ordering: Ordering = "fcfs-ordering-policy"


class FlowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Checked when it is made."""

    is_on: bool = True
    """Whether requests wait at all. If not, sheddable ones are refused while the pool is saturated, and all
    others go."""
    ttl_s: float = 60.0
    """How long a request may wait; 0 is no bound."""
    no_endpoint_ttl_s: float = 60.0
    """How long it may wait for a pool without endpoints to get one; 0 refuses it at once."""
    max_requests: int = 5000
    """Over all bands; 0 is no bound. Where it is met, the lowest band makes room."""
    max_bytes: int = 1_000_000_000
    band: BandSettings = BandSettings()
    """Of priorities that have none of their own."""
    bands: Mapping[int, BandSettings] = {}
    only_bands: bool = False
    """Whether requests of a priority that is not among `bands` wait in the next lower one."""
    weights: Mapping[str, float] = {}
    """Of flows: their shares of the work, relative to the others'; 1 where none is said."""
    quantum: int = 1000
    """Tokens of work that a flow of weight 1 gets in each round."""
    floor_share: float = 0.0
    """The share of the work that each band gets at least while it has requests waiting; 0 serves bands
    strictly in their order."""
    promote_after_s: float = math.inf
    """A request that has waited so long goes before all that have not, whatever its priority."""
    evicts_running: bool = False
    """Whether running sheddable requests are ended for more important ones, before their first byte."""

    def __post_init__(self) -> None:
        problems = [*self._of_numbers(), *self._of_bands()]
        if problems:
            raise ValueError("; ".join(problems))

    def band_of(self, priority: int) -> BandSettings:
        return self.bands.get(priority, self.band)

    def _of_numbers(self) -> list[str]:
        problems = [
            f"{name}: must not be negative, got {value}"
            for name, value in (
                ("ttl_s", self.ttl_s),
                ("no_endpoint_ttl_s", self.no_endpoint_ttl_s),
                ("max_requests", self.max_requests),
                ("max_bytes", self.max_bytes),
            )
            if not value >= 0
        ]
        if self.quantum < 1:
            problems.append(f"quantum: must be at least 1 token, got {self.quantum}")
        if not 0 <= self.floor_share <= 0.5:
            problems.append(f"floor_share: must be from 0 to 0.5, got {self.floor_share}")
        if not self.promote_after_s > 0:
            problems.append(f"promote_after_s: must be more than 0, got {self.promote_after_s}")
        problems += [
            f"weights[{flow!r}]: must be more than 0, got {weight}"
            for flow, weight in self.weights.items()
            if not 0 < weight < math.inf
        ]
        return problems

    def _of_bands(self) -> list[str]:
        problems = []
        for path, band in [("band", self.band), *((f"bands[{at}]", each) for at, each in self.bands.items())]:
            if band.max_requests < 0:
                problems.append(f"{path}.max_requests: must not be negative, got {band.max_requests}")
            if band.max_bytes < 0:
                problems.append(f"{path}.max_bytes: must not be negative, got {band.max_bytes}")
            if band.fairness not in FAIRNESS:
                problems.append(f"{path}.fairness: no policy {band.fairness!r}; one of {', '.join(FAIRNESS)}")
            if band.ordering not in ORDERINGS:
                known = ", ".join(ORDERINGS)
                problems.append(f"{path}.ordering: no policy {band.ordering!r}; one of {known}")
        return problems
