"""Capacity of pools with disaggregated prefill and decode: both stages must have it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from headgate.api import marks
from headgate.fleet import EndpointState
from headgate.flow.capacity.capacity import Capacity
from headgate.routing import DECODES, PREFILLS, PrefillDecode


def partition(
    loads: Sequence[EndpointState], phases: PrefillDecode | None
) -> tuple[list[EndpointState], list[EndpointState]]:
    """The endpoints that prefill, and those that decode; some may do both.

    Decided by the roles in the pool's object, or else by label. If no endpoint has a role, there are no
    stages: both lists are empty.
    """
    if phases is not None:
        roles = phases.roles
        return (
            [load for load in loads if roles[load.endpoint].prefills],
            [load for load in loads if roles[load.endpoint].decodes],
        )
    labels = [load.labels.get(marks.ROLE, "") for load in loads]
    if not any(labels):
        return [], []
    return (
        [load for load, label in zip(loads, labels, strict=True) if label in PREFILLS],
        [load for load, label in zip(loads, labels, strict=True) if label in DECODES],
    )


class Stages(Capacity):
    """As saturated as the more saturated stage. A pool without roles has a single stage."""

    def __init__(self, make: Callable[[], Capacity]) -> None:
        """`make` creates the capacity of one stage."""
        super().__init__()
        self._make = make
        self.judge = make()
        self._stages: Mapping[str, Capacity] = {"all": self.judge}
        self._known: dict[str, Capacity] = {"all": self.judge}
        """All stages so far: one whose endpoints are all resting comes back when they do."""
        self._priorities: Sequence[int] = ()

    def follow(
        self,
        loads: Sequence[EndpointState],
        phases: PrefillDecode | None = None,
        resting: Sequence[EndpointState] = (),
    ) -> None:
        super().follow(loads, phases, resting)
        prefill, decode = partition(loads, phases)
        parts = {name: part for name, part in (("prefill", prefill), ("decode", decode)) if part}
        parts = parts or {"all": list(loads)}
        for name in parts.keys() - self._known.keys():
            self._known[name] = self._make()
            self._known[name].follow_bands(self._priorities)
            self._known[name].take_share(self.share)
        for name, stage in self._known.items():
            stage.follow(parts.get(name, ()), None, resting)
        self._stages = {name: self._known[name] for name in parts}
        self.judge = self._stages.get("all", self)

    def follow_bands(self, priorities: Sequence[int]) -> None:
        self._priorities = priorities
        for stage in self._known.values():
            stage.follow_bands(priorities)

    def has_room(self, priority: int, now: float) -> bool:
        return all(stage.has_room(priority, now) for stage in self._stages.values())

    def why_full(self, priority: int, now: float) -> str:
        full = [stage for stage in self._stages.values() if not stage.has_room(priority, now)]
        return max(full or self._stages.values(), key=lambda stage: stage.saturation(now)).why_full(
            priority, now
        )

    def room_at(self, priority: int, now: float) -> float:
        full = [stage for stage in self._stages.values() if not stage.has_room(priority, now)]
        return max((stage.room_at(priority, now) for stage in full), default=math.inf)

    def ceiling(self, priority: int, now: float) -> float:
        return min(stage.ceiling(priority, now) for stage in self._stages.values())

    def saturation(self, now: float) -> float:
        return max(stage.saturation(now) for stage in self._stages.values())

    def take_share(self, share: float) -> None:
        super().take_share(share)
        for stage in self._known.values():
            stage.take_share(share)

    def fullness(self, now: float) -> float | None:
        told = [stage.fullness(now) for stage in self._stages.values()]
        return max((each for each in told if each is not None), default=None)

    def is_stale(self, load: EndpointState, now: float) -> bool:
        return next(iter(self._stages.values())).is_stale(load, now)  # all stages have the same detector

    def by_stage(self, now: float) -> dict[str, float]:
        """Saturation of each stage: `prefill` and `decode`, or `all`."""
        return {name: stage.saturation(now) for name, stage in self._stages.items()}
