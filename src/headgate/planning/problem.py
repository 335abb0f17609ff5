"""What is planned: demands, the options that serve them, and the accelerators that there are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["MAX_REPLICAS", "SWITCHING", "Assignment", "Demand", "Option", "Plan", "Problem"]

MAX_REPLICAS: Final = 100_000
"""Of one option; those that would need more are not used."""
SWITCHING: Final = 0.1
"""Cost of starting or stopping a replica, as a share of the cost of running it."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A server on an accelerator."""

    server: str
    accelerator: str
    type: str
    """Of the accelerator: capacity is shared by type."""
    units: int
    """Accelerators of one replica."""
    cost: float
    """Of one replica, in a unit that all options share."""
    rate_per_s: float
    """Requests that one replica takes within its targets."""
    minimum: int = 0
    """Replicas of the server; all of its options have the same."""
    maximum: int = MAX_REPLICAS
    current: int = 0

    def __post_init__(self) -> None:
        named = f"{self.server} on {self.accelerator}"
        if not 0 < self.rate_per_s < math.inf:
            raise ValueError(f"{named}: a replica cannot take {self.rate_per_s} requests per second")
        if not 0 <= self.cost < math.inf:
            raise ValueError(f"{named}: {self.cost} is not a cost")
        if self.units < 1 or not 0 <= self.minimum <= self.maximum <= MAX_REPLICAS or self.current < 0:
            raise ValueError(f"{named}: a number of accelerators or replicas is out of range")


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for one model in one class. All its servers share them."""

    name: str
    rate_per_s: float
    priority: int
    """Smaller numbers are served first."""
    options: tuple[Option, ...]
    """A server runs on one of its options at a time."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    demands: tuple[Demand, ...]
    capacity: Mapping[str, int] | None = None
    """Accelerators by type; types that are not listed have none. None: there are always enough."""
    best_effort: bool = False
    """Whether a demand that cannot be served whole is served in part."""
    switching: float = SWITCHING

    def __post_init__(self) -> None:
        names = [demand.name for demand in self.demands]
        if repeated := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"several demands are named {repeated[0]}")
        if not 0 <= self.switching < math.inf:
            raise ValueError(f"switching: {self.switching} is not a share of the cost of a replica")


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of one server."""

    demand: str
    option: Option
    replicas: int
    share: float
    """Share of the demand's capacity: its weight in routing."""

    @property
    def cost(self) -> float:
        return self.replicas * self.option.cost


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that keeps to the capacity, and how far from the best it may be."""

    assignments: tuple[Assignment, ...]
    """Of servers with replicas, ordered by demand and server."""
    served: Mapping[str, float]
    """Share of each demand that is served, at most 1."""
    cost: float
    switching_cost: float
    bound: float
    """No plan that serves as much costs less, switching included."""
    is_optimal: bool
    """Whether it is proven that no plan serves more by priority, or as much for less."""

    @property
    def gap(self) -> float:
        """How much of the cost might be saved at most, as a share; 0 for an optimal plan."""
        total = self.cost + self.switching_cost
        if self.is_optimal or total <= 0:
            return 0.0
        return min(1.0, max(0.0, (total - self.bound) / total)) if math.isfinite(self.bound) else 1.0
