"""Who decides the replicas of a workload, if several objects want to: the oldest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from headgate.controllers.autoscaling.workloads import Workload


class Claimant(NamedTuple):
    """An object that decides the replicas of workloads."""

    kind: str
    namespace: str
    name: str
    created: str = ""
    """When, RFC 3339."""
    is_unstoppable: bool = False
    """Whether another program scales by it: it would go on beside a binding, whichever is older."""

    @property
    def id(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name

    @property
    def precedence(self) -> tuple[bool, str, str, str, str]:
        """Sorts whoever decides first."""
        return (not self.is_unstoppable, self.created, self.namespace, self.name, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Claims:
    """Takes claimants in any order."""

    def __init__(self) -> None:
        self._claimants: dict[tuple[str, str, str], Claimant] = {}
        self._workloads: dict[tuple[str, str, str], frozenset[Workload]] = {}
        self._on: defaultdict[Workload, set[tuple[str, str, str]]] = defaultdict(set)

    def put(self, claimant: Claimant, workloads: Collection[Workload]) -> set[Workload]:
        """Set all workloads that it claims, none if it is gone; returns those about which something
        changed."""
        before, after = self._workloads.get(claimant.id, frozenset()), frozenset(workloads)
        is_same = self._claimants.get(claimant.id) == claimant
        for workload in before - after:
            self._on[workload].discard(claimant.id)
            if not self._on[workload]:
                del self._on[workload]
        for workload in after - before:
            self._on[workload].add(claimant.id)
        if after:
            self._claimants[claimant.id], self._workloads[claimant.id] = claimant, after
        else:
            self._claimants.pop(claimant.id, None)
            self._workloads.pop(claimant.id, None)
        return set(before ^ after) if is_same else set(before | after)

    def holder(self, workload: Workload) -> Claimant | None:
        """Who decides."""
        on = (self._claimants[each] for each in self._on.get(workload, ()))
        return min(on, key=lambda each: each.precedence, default=None)

    def on(self, workload: Workload) -> list[Claimant]:
        """All who want to, in order of precedence."""
        on = (self._claimants[each] for each in self._on.get(workload, ()))
        return sorted(on, key=lambda each: each.precedence)
