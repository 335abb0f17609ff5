"""How much one replica of a target serves, compared with those of the other targets.

While all targets are busy, each replica serves what its hardware can: the rates of that time, averaged, are
compared. Until they are known for every target, all replicas count as equal. A capacity in use changes only
when what was learned differs clearly, because each change can move replicas between targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from headgate.autoscaling.optimizer import Param

__all__ = ["Learned", "capacities", "learned"]

_MEMORY_S: Final = 1800.0
_EVIDENCE_S: Final = 120.0
_LONGEST_STEP_S: Final = 60.0
_BUSY: Final = 0.7
_CHANGE: Final = 0.15
_LARGEST_RATIO: Final = 16.0
_MOST_TARGETS: Final = 64
_SMALLEST, _LARGEST = 1e-6, 1e12
"""Rates that are taken for real."""


Positive: TypeAlias = Annotated[float, Meta(ge=1e-9, le=1e12)]


class Learned(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one target."""

    name: str
    rate: Positive
    """Served by one busy replica per second, averaged."""
    seconds: Positive
    """Busy time that the average is from."""
    used: Positive = 1.0
    """The capacity in use, compared with the first target's."""


def learned(
    before: Sequence[Learned], params: Sequence[Param], elapsed_s: float, utilization: float
) -> tuple[Learned, ...]:
    """Learn from a pass. `utilization`: the needed share of the current capacity; below 0.7 the targets may
    not be busy, and nothing is learned."""
    known = {entry.name: entry for entry in before}
    step_s = min(max(elapsed_s, 0.0), _LONGEST_STEP_S) if utilization >= _BUSY else 0.0
    found = [_updated(known.get(param.name), param, step_s) for param in params[:_MOST_TARGETS]]
    return _compared([entry for entry in found if entry is not None])


def capacities(known: Sequence[Learned], params: Sequence[Param]) -> tuple[float, ...]:
    """One capacity for each target: that of the param if it has one, else the learned one, else 1."""
    used = {entry.name: entry.used for entry in known}
    return tuple(
        param.capacity if param.capacity is not None and param.capacity > 0 else used.get(param.name, 1.0)
        for param in params
    )


def _updated(known: Learned | None, param: Param, step_s: float) -> Learned | None:
    served = param.served
    if served is None or not _SMALLEST <= served <= _LARGEST or param.ready <= 0 or step_s <= 0:
        return known
    rate = max(served / param.ready, _SMALLEST)
    if known is None:
        return Learned(param.name, rate, step_s)
    seconds = min(known.seconds + step_s, _MEMORY_S)
    average = known.rate + (rate - known.rate) * step_s / seconds
    return Learned(param.name, average, seconds, known.used)


def _compared(found: list[Learned]) -> tuple[Learned, ...]:
    if len(found) < 2 or any(entry.seconds < _EVIDENCE_S for entry in found):
        return tuple(found)
    first = found[0].rate
    return tuple(
        Learned(entry.name, entry.rate, entry.seconds, _steady(entry.used, entry.rate / first))
        for entry in found
    )


def _steady(used: float, ratio: float) -> float:
    ratio = min(max(ratio, 1 / _LARGEST_RATIO), _LARGEST_RATIO)
    return round(ratio, 2) if abs(ratio - used) > _CHANGE * used else used
