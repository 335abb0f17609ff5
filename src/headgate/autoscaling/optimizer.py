"""Split a number of replicas among targets that serve the same model at different cost.

The order in which replicas are added is fixed: cheap blocks first, where each further block of a target is
larger, and so dearer, by the expansion rate. The split depends on the number alone, so that scaling down
takes back exactly what scaling up added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.autoscaling.policy import Bounds
from headgate.autoscaling.samples import PodSample

__all__ = ["Block", "Param", "allocate", "blocks", "fewest_with", "units"]

_ROUNDING: Final = 1e-9


class Param(NamedTuple):
    """One of several targets that share the load."""

    name: str
    """Unique among the targets; what is learned is kept under it."""
    bounds: Bounds
    cost: float
    """Of one replica, in a unit that all targets share."""
    current: int
    ready: int
    pods: Sequence[PodSample] = ()
    capacity: float | None = None
    """Of one replica, compared with the first target's; None: learn it from `served`."""
    served: float | None = None
    """Work that its ready replicas finish per second together, in any unit that all targets share."""


class Block(NamedTuple):
    """Replicas of one target that are added one after another."""

    param: int
    """Index of the target."""
    size: int


def blocks(params: Sequence[Param], capacities: Sequence[float], expansion_percent: int) -> list[Block]:
    """All replicas above the minimum, in the order in which they are added: by the cost of a block per
    capacity of a replica, then by the order of the targets."""
    ordered: list[tuple[float, int, int]] = []
    for index, (param, capacity) in enumerate(zip(params, capacities, strict=True)):
        left = param.bounds.maximum - param.bounds.minimum
        cost = param.cost / capacity
        if expansion_percent <= 100:  # blocks that do not grow are as good as one
            if left > 0:
                ordered.append((cost, index, left))
            continue
        length = 1.0
        while left > 0:
            size = min(left, int(length))
            ordered.append((cost * size, index, size))
            left -= size
            length *= expansion_percent / 100
    ordered.sort()
    return [Block(index, size) for _, index, size in ordered]


def allocate(params: Sequence[Param], order: Sequence[Block], total: int) -> tuple[int, ...]:
    """Replicas of each target that are `total` together, or as close to it as the bounds allow."""
    desired = [param.bounds.minimum for param in params]
    left = total - sum(desired)
    for block in order:
        if left <= 0:
            break
        added = min(block.size, left)
        desired[block.param] += added
        left -= added
    return tuple(desired)


def units(replicas: Sequence[int], capacities: Sequence[float]) -> float:
    """The capacity of the replicas together, as a number of replicas of capacity 1."""
    return sum(number * capacity for number, capacity in zip(replicas, capacities, strict=True))


def fewest_with(
    params: Sequence[Param], order: Sequence[Block], capacities: Sequence[float], needed: float
) -> int:
    """The smallest total whose split has the needed capacity; the largest total if none has."""
    total = sum(param.bounds.minimum for param in params)
    left = needed - units([param.bounds.minimum for param in params], capacities)
    for block in order:
        if left <= _ROUNDING:
            break
        capacity = capacities[block.param]
        added = min(block.size, -int(-(left - _ROUNDING) // capacity))
        total += added
        left -= added * capacity
    return total
