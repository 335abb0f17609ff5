"""One server alone: how many replicas it needs where it runs, where else it could run, and what changes."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headgate.planning.candidates import Candidate, Entry, candidates
from headgate.planning.system import AllocationData, System

__all__ = ["NONE", "Difference", "Scaled", "difference", "reallocate", "scale"]

NONE = "none"
"""Accelerator of what does not exist."""


class Difference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Between two allocations of a server."""

    old_accelerator: str
    new_accelerator: str
    old_num_replicas: int
    new_num_replicas: int
    cost_diff: float


class Scaled(NamedTuple):
    candidate: Candidate
    increment: int
    """Replicas to start; negative: to stop."""


def difference(old: AllocationData | None, new: AllocationData | None) -> Difference | None:
    """What changes from one to the other; None if there is neither."""
    if old is None and new is None:
        return None
    before, after = old or AllocationData(accelerator=NONE), new or AllocationData(accelerator=NONE)
    return Difference(
        old_accelerator=before.accelerator,
        new_accelerator=after.accelerator,
        old_num_replicas=before.num_replicas,
        new_num_replicas=after.num_replicas,
        cost_diff=after.cost - before.cost,
    )


def scale(system: System, name: str, percentile: float | None = None) -> Scaled | None:
    """Replicas of a server for its load on its current accelerator; None if that is impossible."""
    entry = _alone(system, name, percentile)
    if entry is None:
        return None
    current = entry.server.current_alloc
    for candidate in entry.candidates:
        if candidate.accelerator in (current.accelerator, ""):
            return Scaled(candidate, candidate.replicas - current.num_replicas)
    return None


def reallocate(system: System, name: str, percentile: float | None = None) -> Candidate | None:
    """The cheapest way to run a server on any accelerator; None if there is none."""
    entry = _alone(system, name, percentile, is_free=True)
    if entry is None:
        return None
    return min(entry.candidates, key=lambda each: (each.cost, each.accelerator), default=None)


def _alone(system: System, name: str, percentile: float | None, *, is_free: bool = False) -> Entry | None:
    """The candidates of one server, with its own load; `is_free`: also where it may not go."""
    server = system.servers.get(name)
    if server is None:
        return None
    if is_free:
        server = msgspec.structs.replace(server, keep_accelerator=False)
    (entry,) = candidates(msgspec.structs.replace(system, servers={name: server}), percentile)
    return entry
